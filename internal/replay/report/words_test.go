package report

import (
	"strings"
	"testing"
	"time"
)

func TestReportWords_are_easy_to_read(t *testing.T) {
	day := time.Date(2026, 11, 3, 14, 5, 7, 0, time.FixedZone("", 3600))
	for _, tt := range []struct{ got, want string }{
		{sayCount(0), "0"}, {sayCount(999), "999"}, {sayCount(1_000), "1,000"}, {sayCount(int64(-1_234_567)), "-1,234,567"},
		{sayMany(1, "request"), "1 request"}, {sayMany(2_000, "request"), "2,000 requests"},
		{sayShare(0, 0), "–"}, {sayShare(0, 7), "0 %"}, {sayShare(7, 7), "100 %"}, {sayShare(1, 30_000), "< 0.01 %"},
		{sayShare(1, 2_000), "0.05 %"}, {sayShare(29_999, 30_000), "99.9 %"}, {sayShare(1, 3), "33.3 %"},
		{sayDuration(0), "0 s"}, {sayDuration(time.Microsecond), "< 1 ms"}, {sayDuration(1500 * time.Millisecond), "1 s"}, {sayDuration(15 * time.Millisecond), "15 ms"},
		{sayDuration(90 * time.Second), "1 min 30 s"}, {sayDuration(24*time.Hour + time.Second), "1 d"}, {sayDuration(25 * time.Hour), "1 d 1 h"},
		{saySpan(time.Minute), "minute"}, {saySpan(5 * time.Minute), "5 minutes"}, {saySpan(90 * time.Second), "90 seconds"}, {saySpan(24 * time.Hour), "day"},
		{sayTime(day), "13:05 UTC on 3 November 2026"}, {sayTime(time.Time{}), "–"}, {sayCell(day), "2026-11-03 13:05:07"},
		{sayBetween(day, day.Add(time.Hour)), "between 13:05 and 14:05 UTC on 3 November 2026"},
		{sayBetween(day, day.Add(24*time.Hour)), "between 13:05 UTC on 3 November 2026 and 13:05 UTC on 4 November 2026"},
		{sayRange(3, 3), "3"}, {sayRange(1_000, 1_499), "1,000–1,499"},
		{axisCount(1_500_000), "1.5 M"}, {axisCount(12_000), "12,000"}, {axisPercent(0.02), "0.02 %"}, {axisPercent(100), "100 %"},
	} {
		if got := strings.ReplaceAll(tt.got, noBreak, " "); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
