package waiting

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// The simulated values are those of a simulator of the same rule in virtual time, with round trips of 0.2 ms: means of ten
// runs.

// TestFairness_nodes has 90, 9 and 1 clients on three nodes wait for eight places, for services of a second.
func TestFairness_nodes(t *testing.T) {
	long(t)
	t.Parallel()
	s := newScene(t, time.Second, time.Second/10)
	s.startNodes(t, 3, redistest.Start(t))
	s.measure(t, func(begin func(node int, group, user string)) {
		for node, clients := range []int{90, 9, 1} {
			for range clients {
				begin(node, fmt.Sprint(node), "")
			}
		}
	}, 22*time.Second, 300*time.Second, nil)
	rows := []compared{}
	simulated, most := []float64{11.65, 9.53, 11.30}, 0.
	for node, clients := range []int{90, 9, 1} {
		starts, mean, longest := s.waitOf(fmt.Sprint(node))
		t.Logf("the node with %d clients has started %d requests", clients, starts)
		rows = append(rows, compared{fmt.Sprintf("mean wait of the node with %d clients, s", clients), simulated[node], mean})
		most = max(most, longest)
	}
	check(t, append(rows, compared{"longest wait, s", 13.04, most}))
	t.Logf("%.2f%% of the places were used", 100*s.use())
}

// TestFairness_values has a user with 1,000 requests wait beside one with one, and eight with three each, on three nodes.
func TestFairness_values(t *testing.T) {
	long(t)
	t.Parallel()
	s := newScene(t, time.Second, time.Second/100)
	s.by = " by {http.request.header.X-User}"
	s.startNodes(t, 3, redistest.Start(t))
	s.measure(t, func(begin func(node int, group, user string)) {
		for i := range 1000 {
			begin(i%3, "heavy", "heavy")
		}
		begin(2, "light", "light")
		for i := range 24 {
			begin(2, "others", fmt.Sprint("other", i/3))
		}
	}, 33*time.Second, 300*time.Second, nil)
	lights, mean, longest := s.waitOf("light")
	heavies, _, _ := s.waitOf("heavy")
	others, _, _ := s.waitOf("others")
	check(t, []compared{
		{"longest wait of the light user / service", 1.755, longest},
		{"its mean wait / service", 1.285, mean},
		{"its starts", 144. * 300 / 330, float64(lights)},
		{"starts of the heavy user", 345. * 300 / 330, float64(heavies)},
		{"starts of each other user", 269. * 300 / 330, float64(others) / 8},
	})
	t.Logf("%.2f%% of the places were used", 100*s.use())
}
