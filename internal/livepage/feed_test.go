package livepage

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// answer is what a viewer reads.
type answer struct {
	Next     string
	Full     bool
	Points   struct{ Last, Step, Kept int64 }
	Store    json.RawMessage
	Policies []struct {
		Name          string
		About, Counts json.RawMessage
		Points        map[string][]uint32
	}
}

// text writes what is new in an answer.
func (a *answer) text() string {
	parts := []string{fmt.Sprintf("full=%t store=%s last=%d", a.Full, a.Store, a.Points.Last)}
	for _, p := range a.Policies {
		part := p.Name + " " + string(p.About) + " " + string(p.Counts)
		for _, list := range slices.Sorted(maps.Keys(p.Points)) {
			part += fmt.Sprint(" ", list, p.Points[list])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func askFeed(t *testing.T, f *Feed, token string, d *Document) (a answer) {
	t.Helper()
	text := f.Answer(token, d)
	assert.FatalIf(t, json.Unmarshal(text, &a) != nil, "no JSON: %s", text)
	return a
}

// fixed returns points that stay as they are, as [storepool.Names.Points] would.
func fixed(latest int64, of map[string][]storepool.Point) func(int64) (int64, map[string][]storepool.Point) {
	return func(behind int64) (int64, map[string][]storepool.Point) {
		found := map[string][]storepool.Point{}
		for name, points := range of {
			if fresh := points[min(max(0, int64(len(points))-latest+behind), int64(len(points))):]; len(fresh) > 0 {
				found[name] = fresh
			}
		}
		return latest, found
	}
}

// TestFeed_Answer asks again after changes of each kind, and with tokens that tell nothing.
func TestFeed_Answer(t *testing.T) {
	f := NewFeed()
	d := &Document{
		At: time.Now(), Sections: []Section{{"store", json.RawMessage(`1`)}},
		Policies: []Row{{`"</a`, json.RawMessage(`"a"`), json.RawMessage(`1`)}, {"b", json.RawMessage(`"b"`), json.RawMessage(`2`)}},
		Points:   fixed(2, map[string][]storepool.Point{"b": {{Requests: 3, Running: 1}, {Requests: 4, WouldBeDenied: 1, Bans: 2}}}),
	}
	all := `full=true store=1 last=2; "</a "a" 1; b "b" 2 bans[0 2] requests[3 4] running[1 0] would_be_denied[0 1]`
	first := askFeed(t, f, "", d)
	assert.Equal(t, first.text(), all, "the whole document")
	assert.Equal(t, fmt.Sprint(first.Points.Step, first.Points.Kept), "10 61", "the step of points, and how many are kept")
	second := askFeed(t, f, first.Next, d)
	assert.Equal(t, second.text(), "full=false store= last=2", "nothing new")

	d.Policies[1].Counts, d.Sections[0].Value = json.RawMessage(`22`), json.RawMessage(`11`)
	d.Points = fixed(3, map[string][]storepool.Point{"b": {{Requests: 3}, {Requests: 4}, {Denied: 5}}})
	assert.Equal(t, new(askFeed(t, f, second.Next, d)).text(), "full=false store=11 last=3; b  22 denied[5]", "what has changed")
	third := askFeed(t, f, first.Next, d)
	assert.Equal(t, third.text(), "full=false store=11 last=3; b  22 denied[5]", "what has changed, for one who missed an answer")
	d.Policies[0].About = json.RawMessage(`"aa"`)
	assert.Equal(t, new(askFeed(t, f, third.Next, d)).text(), `full=false store= last=3; "</a "aa" `, "another configuration")

	for _, token := range []string{
		"x", ".", "..", f.id, f.id + ".1", f.id + ".-1.1", f.id + ".1.-1", f.id + ".99999.1", f.id + ".99999999999999999999.1",
		"other.1.1", strings.Repeat("1.", 1000), NewFeed().token(since{1, 1}), f.id + ".0x1.1",
	} {
		assert.ErrorIf(t, !askFeed(t, f, token, d).Full, "%.40q tells what a viewer has", token)
	}
	last := askFeed(t, f, "", d)
	d.Policies = d.Policies[1:]
	d.Points = fixed(3, nil)
	assert.Equal(t, new(askFeed(t, f, last.Next, d)).text(), "full=true store=11 last=3; b \"b\" 22", "without a policy")
}

// BenchmarkFeed writes 2,000 policies with all their points.
func BenchmarkFeed(b *testing.B) {
	f, d := NewFeed(), &Document{}
	points := map[string][]storepool.Point{}
	for i := range 2000 {
		name := fmt.Sprintf("policy%d", i)
		d.Policies = append(d.Policies, Row{name, json.RawMessage(`{"sentence":"` + strings.Repeat("x", 100) + `"}`), json.RawMessage(`1`)})
		for j := range uint32(storepool.HistoryPoints) {
			points[name] = append(points[name], storepool.Point{Requests: 1000 + j, Denied: j})
		}
	}
	d.Points = fixed(storepool.HistoryPoints, points)
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(f.Answer("", d))))
	}
}
