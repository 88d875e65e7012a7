package replay

import (
	"testing"
	"time"
	_ "time/tzdata" // zones of machines without a table

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// TestSuggester_calendar tries limits of calendar periods by the log's own clock: days of Santiago around the
// one without a first hour, and months.
func TestSuggester_calendar(t *testing.T) {
	zone, err := time.LoadLocation("America/Santiago")
	redistest.Must(t, err)
	begins := time.Date(2026, 9, 4, 12, 0, 0, 0, time.UTC).UnixMicro()
	const day = 86_400_000_000
	for _, calendar := range []string{"day", "month"} {
		p, err := limiter.NewPolicy(limiter.Settings{Name: "p", Calendar: calendar, Location: zone, Limit: 20})
		redistest.Must(t, err)
		settings := p.Settings()
		traffic := suggestTraffic(1, 2000, day, 1000, 0.1)
		first := traffic[0].micros
		for i := range traffic {
			traffic[i].micros += begins - first
		}
		s := newTestSuggester(t, settings, SuggestOptions{})
		compareSuggestions(t, s, settings, traffic)
		if len(s.names) != 1 || s.names[0] != limiter.FixedWindow || s.running == nil || s.result.WindowText() != calendar+" (America/Santiago)" || s.ownLimit() != 20 {
			t.Errorf("tried %v of %s, with requests at once: %v", s.names, s.result.WindowText(), s.running != nil)
		}
		// Windows of one length are tried as those of any policy.
		other := newTestSuggester(t, settings, SuggestOptions{Window: time.Hour})
		settings.Calendar, settings.Location, settings.Window = "", nil, time.Hour
		compareSuggestions(t, other, settings, traffic)
		redistest.ErrorIf(t, len(other.names) != 4 || other.running == nil || other.ownLimit() != 0, "tried %v", other.names)
	}
	p, err := limiter.NewPolicy(limiter.Settings{Name: "p", Calendar: "day", Limit: 20})
	redistest.Must(t, err)
	if _, err = NewSuggester(p, "{key}", SuggestOptions{Algorithms: []string{limiter.GCRA}}); err == nil || err.Error() != "algorithm gcra: calendar periods are counted by fixed_window alone; leave the algorithm out" {
		t.Error(err)
	}
}
