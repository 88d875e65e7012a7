package docs

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// recipeCustomersMonth has customers whose months begin on days of their own.
func recipeCustomersMonth(t *testing.T, e recipeEnv) {
	playCustomers(t, e, e)
}

// TestRecipes_nodes plays a customer's month on two nodes.
func TestRecipes_nodes(t *testing.T) {
	t.Parallel()
	for _, r := range readRecipes(t) {
		if r.heading == "A customer's month" {
			option := caddytest.SharedRedis(t)
			playCustomers(t, runRecipe(t, r.caddyfiles[0], option), runRecipe(t, r.caddyfiles[0], option))
			return
		}
	}
	t.Error("there is no such recipe")
}

// playCustomers has customers use two nodes, which may be one.
func playCustomers(t *testing.T, a, b recipeEnv) {
	t.Helper()
	const acme, bolt = "X-Api-Key: key-of-acme", "X-Api-Key: key-of-bolt"
	berlin := assert.NoError(time.LoadLocation("Europe/Berlin"))(t)
	a.GetTimes(t, 2, "/v1/search", acme)
	b.GetTimes(t, 3, "/v1/search", acme)
	a.Get(t, "/v1/search", bolt)
	b.Get(t, "/v1/search", "X-Api-Key: wrong").Want(t, http.StatusBadRequest, caddytest.Any)
	for _, e := range []recipeEnv{a, b} {
		for _, c := range []struct {
			header string
			used   int64
			day    string
			begins func(year int, month time.Month) time.Time
		}{
			{acme, 5, "31", func(year int, month time.Month) time.Time { return time.Date(year, month+1, 0, 0, 0, 0, 0, berlin) }},
			{bolt, 1, "7", func(year int, month time.Month) time.Time { return time.Date(year, month, 7, 0, 0, 0, 0, berlin) }},
		} {
			now := time.Now().In(berlin)
			ends := c.begins(now.Year(), now.Month())
			if !ends.After(now) {
				ends = c.begins(now.Year(), now.Month()+1)
			}
			assert.WaitFor(t, "the budget is told", func() error {
				told := e.Get(t, "/v1/budget", c.header)
				q := caddytest.ParseJSON[struct {
					Policies []struct {
						Remaining  int64
						ResetAfter float64 `json:"reset_after"`
						Window     string
					}
				}](t, told).Policies[0]
				off := time.Until(ends) - time.Duration(q.ResetAfter*float64(time.Second))
				if q.Remaining != 10_000-c.used || q.Window != "month@"+c.day || off.Abs() > 10*time.Second {
					return fmt.Errorf("got %v; the month ends %v", told, ends)
				}
				return nil
			})
		}
	}
	b.Ratelimit(t, "state", "--policy", "budget", "--key", "acme").Want(t, 0, "remaining    9995\n", "the months of this key begin on day 31")
}
