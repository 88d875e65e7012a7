package report

import (
	"strings"
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	day := time.Date(2026, 11, 3, 14, 5, 7, 0, time.FixedZone("", 3600))
	for _, tt := range []struct{ got, want string }{
		{sayCounted(1, "request"), "1 request"}, {sayCounted(2_000, "request"), "2,000 requests"},
		{sayPercent(0, 0), "–"}, {sayPercent(0, 7), "0 %"}, {sayPercent(1, 30_000), "< 0.01 %"},
		{sayDuration(90 * time.Second), "1 min 30 s"}, {sayPeriod(5 * time.Minute), "5 minutes"},
		{sayTime(day), "13:05 UTC on 3 November 2026"}, {sayTime(time.Time{}), "–"}, {sayCell(day), "2026-11-03 13:05:07"},
		{sayBetween(day, day.Add(time.Hour)), "between 13:05 and 14:05 UTC on 3 November 2026"},
		{sayBetween(day, day.Add(24*time.Hour)), "between 13:05 UTC on 3 November 2026 and 13:05 UTC on 4 November 2026"},
		{sayRange(3, 3), "3"}, {sayRange(1_000, 1_499), "1,000–1,499"},
		{axisCount(12_000), "12,000"}, {axisPercent(0.02), "0.02 %"}, {axisPercent(100), "100 %"},
	} {
		if got := strings.ReplaceAll(tt.got, noBreak, " "); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
