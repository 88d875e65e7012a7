package docs

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file plays recipes with backends that are down, that refuse, that are slow and that stall.

// backendRecipes are the recipes whose counts depend on what the backend does.
var backendRecipes = map[string]func(*testing.T, recipeEnv, *unreliable){
	"Log-in protection":      logInUnreliably,
	"Language-model gateway": callUnreliably("tokens", 100_000, `{"max_tokens":5000}`, 5000, 4000),
	"A budget in money":      callUnreliably("money", 5_000_000, `{"model":"small"}`, 1200, 421),
}

// unreliable is a backend of which a test says how it is. Nothing listens at its address before it is started.
type unreliable struct {
	addr string

	mu     sync.Mutex
	status int           // of all answers; 0: those of the recipes' backend
	delay  time.Duration // of all answers
	held   chan struct{} // until it is closed there are no answers; nil: there are
}

func (u *unreliable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	status, delay, held := u.status, time.After(u.delay), u.held
	u.mu.Unlock()
	if held != nil {
		delay = nil
	}
	select {
	case <-delay:
	case <-held:
	case <-r.Context().Done():
	}
	if status == 0 {
		(&backend{}).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%d}}`, status)
}

// start has the backend listen.
func (u *unreliable) start(t *testing.T) {
	t.Helper()
	listener := assert.NoError(net.Listen("tcp", u.addr))(t)
	server := &http.Server{Handler: u} //nolint:gosec // of a test
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// be says how the backend is from now on.
func (u *unreliable) be(status int, delay time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.status, u.delay = status, delay
}

// hold keeps back the answers of the recipes' backend until the function is called.
func (u *unreliable) hold() (answer func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	held := make(chan struct{})
	u.status, u.held = 0, held
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.held = nil
		close(held)
	}
}

func TestRecipes_backends(t *testing.T) {
	t.Parallel()
	for _, r := range readRecipes(t) {
		if play := backendRecipes[r.heading]; play != nil {
			t.Run(r.heading, func(t *testing.T) {
				t.Parallel()
				for source, option := range caddytest.Stores(t) {
					t.Run(source, func(t *testing.T) {
						t.Parallel()
						u := &unreliable{addr: redistest.FreeAddr(t)}
						play(t, runRecipe(t, strings.ReplaceAll(r.caddyfiles[0], recipeBackend, u.addr), option), u)
					})
				}
			})
		}
	}
}

// logInUnreliably tries passwords. Those count that a backend finds wrong, however long it takes.
func logInUnreliably(t *testing.T, e recipeEnv, u *unreliable) {
	for range 8 { // more than the limit
		caddytest.CheckQuota(t, e.logIn(t, "right").Want(t, http.StatusBadGateway, caddytest.Any), 5, 5)
	}
	u.start(t)
	for _, status := range []int{529, 503, 500, 400} {
		u.be(status, 0)
		for range 8 {
			caddytest.CheckQuota(t, e.logIn(t, "guess").Want(t, status, caddytest.Any), 5, 5)
		}
	}
	u.be(0, 5*time.Second)
	caddytest.CheckQuota(t, e.logIn(t, "guess").Want(t, http.StatusUnauthorized, caddytest.Any), 5, 4)
	caddytest.CheckQuota(t, e.logIn(t, "right").Want(t, http.StatusOK, caddytest.Any), 5, 4)
	u.be(0, 0)
	for left := int64(3); left >= 0; left-- {
		caddytest.CheckQuota(t, e.logIn(t, "guess").Want(t, http.StatusUnauthorized, caddytest.Any), 5, left)
	}
	caddytest.CheckRefusal(t, e.logIn(t, "right"), http.StatusTooManyRequests)
}

// callUnreliably calls a model. Calls that it does not answer, and those that it refuses, cost nothing of the budget
// and are bounded by the policy of calls. A call that it answers takes the estimate until then.
func callUnreliably(policy string, budget int64, question string, estimate, cost int64) func(*testing.T, recipeEnv, *unreliable) {
	return func(t *testing.T, e recipeEnv, u *unreliable) {
		call := func(customer string, status int) {
			t.Helper()
			e.ask(t, question, "Authorization: "+customer).Want(t, status, caddytest.Any)
		}
		for range 50 {
			call("dead", http.StatusBadGateway)
		}
		e.WaitForRefund(t, policy, "dead", budget)
		u.start(t)
		for _, status := range []int{529, 503, 400, 401} {
			u.be(status, 0)
			customer := fmt.Sprint("refused-with-", status)
			for range 50 {
				call(customer, status)
			}
			e.WaitForRefund(t, policy, customer, budget)
		}
		answer, answered := u.hold(), make(chan struct{})
		go func() {
			defer close(answered)
			call("slow", http.StatusOK)
		}()
		assert.Retry(t, "the estimate is taken", func() (again bool, seen any) {
			left := e.Remaining(t, policy, "slow")
			return left != budget-estimate, left
		})
		answer()
		<-answered
		e.WaitForRefund(t, policy, "slow", budget-cost)
		u.be(400, 0)
		passed, began := 0, time.Now()
		for ; passed < 90; passed++ {
			if a := e.ask(t, question, "Authorization: bounded"); a.Status != http.StatusBadRequest {
				caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
				break
			}
		}
		most := 60 + int(time.Since(began).Seconds()) + 1 // the minute goes on
		assert.ErrorIf(t, passed < 60 || passed > most, "%d calls that the model refused passed, want 60 to %d", passed, most)
	}
}

// recipeStalls has a log-in that does not answer wrong passwords within the timeout of the proxy. These count.
func recipeStalls(t *testing.T, e recipeEnv) {
	clients := 0
	assert.Retry(t, "a log-in is answered within the timeout", func() (again bool, seen any) { // a busy backend may stall too
		clients++
		a := e.from(fmt.Sprint("127.0.6.", clients)).logInAs(t, fmt.Sprintf("user%d@example.com", clients), "right")
		if a.Status == http.StatusGatewayTimeout {
			return true, a
		}
		a.Want(t, http.StatusOK, caddytest.Any)
		return false, nil
	})
	var guesses sync.WaitGroup
	for range 5 {
		guesses.Go(func() { e.logIn(t, "stall").Want(t, http.StatusGatewayTimeout, caddytest.Any) })
	}
	guesses.Wait()
	caddytest.CheckRefusal(t, e.logIn(t, "right"), http.StatusTooManyRequests)
}
