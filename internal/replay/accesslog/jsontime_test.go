package accesslog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func timedLine(at string) string {
	return fmt.Sprintf(`{"when":%s,"request":{"client_ip":"1.2.3.4"},"size":1}`+"\n", at)
}

func readTimed(t *testing.T, log string, layouts ...string) ([]Entry, Summary) {
	t.Helper()
	return readAll(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(log), TimeLayouts: layouts})
}

func TestReader_ambiguous_dates(t *testing.T) {
	log := timedLine(`"06/15/2025 15:06:40"`) + timedLine(`"05/06/2025 15:06:40"`)
	if entries, s := readTimed(t, log); len(entries) != 0 || s.Total().Malformed != 2 {
		t.Errorf("guessed %+v", entries)
	}
	entries, _ := readTimed(t, timedLine(`"05/06/2025 15:06:40"`), "02/01/2006 15:04:05")
	want := time.Date(2025, 6, 5, 15, 6, 40, 0, time.UTC).UnixMicro()
	redistest.ErrorIf(t, len(entries) != 1 || entries[0].Time != want, "got %+v, want the time %d", entries, want)
}

func TestReader_unreadable_times(t *testing.T) {
	for _, at := range []string{`"06/15/2025 15:06:40"`, `"at noon"`, `null`, `"15:06:40.123"`, `"3:06PM"`, `17`} {
		entries, s := readTimed(t, timedLine(at), "3:04PM")
		redistest.ErrorIf(t, len(entries) != 0 || len(s.Malformed) != 1 || s.Malformed[0].Reason != noTime, "%s: %+v %+v", at, entries, s.Malformed)
	}
}

func TestSummary_Warnings_zones(t *testing.T) {
	for _, tt := range []struct {
		time, layout string
		zoneless     int64
	}{
		{`"2025/06/15 15:06:40"`, "", 1},
		{`"06/15/2025 15:06:40"`, "01/02/2006 15:04:05", 1},
		{`"2025-06-15T15:06:40Z"`, "", 0},
		{`"06/15/2025 17:06:40 +02:00"`, "01/02/2006 15:04:05 -07:00", 0},
		{`1750000000`, "", 0},
		{`"1750000000.5"`, "", 0},
	} {
		log := timedLine(tt.time) + clfLine(1, "a")
		entries, s := readTimed(t, log, append([]string{"wall"}, tt.layout)...)
		if len(entries) != 2 || entries[0].Time/1e6 != second/1e6 || s.Zoneless != tt.zoneless {
			t.Errorf("%s: %d zoneless, %v, %+v", tt.time, s.Zoneless, entries, s.Malformed)
		}
		warned := strings.Contains(strings.Join(s.Warnings(), "\n"), "1 request with a time without a known zone")
		redistest.ErrorIf(t, warned != (tt.zoneless > 0), "%s: warnings are %q", tt.time, s.Warnings())
	}
}

// TestParser_zone_names reads a name of a zone alike on every machine: it has no offset that all agree on.
func TestParser_zone_names(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	time.Local = time.FixedZone("IST", 19_800)
	p, e := newParser(&Options{TimeLayouts: []string{"2006-01-02 15:04:05 MST"}}), &Entry{}
	want := time.Date(2026, 9, 21, 14, 13, 20, 0, time.UTC).UnixMicro()
	if !p.time(`"2026-09-21 14:13:20 IST"`, e) || e.Time != want || !e.zoneless {
		t.Errorf("%+v, want %d and no zone", e, want)
	}
}
