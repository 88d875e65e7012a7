package kernel

import (
	"archive/zip"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// zones returns every zone of the Go distribution's table, one name for each content.
func zones(t *testing.T) map[string]*time.Location {
	t.Helper()
	ask := exec.Command("go", "env", "GOROOT")
	ask.Env = append(os.Environ(), "GOFLAGS=") // which may ask for JSON
	root := assert.NoError(ask.Output())(t)
	table := assert.NoError(zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")))(t)
	t.Cleanup(func() { _ = table.Close() })
	found := map[string]*time.Location{}
	seen := map[string]bool{}
	for _, file := range table.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		content := assert.NoError(file.Open())(t)
		data := assert.NoError(io.ReadAll(content))(t)
		zone := assert.NoError(time.LoadLocationFromTZData(file.Name, data))(t)
		if !seen[string(data)] || slices.Contains(odd, file.Name) {
			found[file.Name], seen[string(data)] = zone, true
		}
	}
	assert.FatalIf(t, len(found) < 300, "only %d zones", len(found))
	return found
}

// day is how many days a local date is after 1970-01-01.
type day int64

func (d day) date() time.Time { return time.Unix(int64(d)*86_400, 0).UTC() }

// midnights returns the first instant of each date from 1970 to 2040, by the definition alone: spans of one
// offset are found by trial, and within a span dates begin a day apart. A skipped date has none. It also
// returns the dates around a change of the offset.
func midnights(zone *time.Location) (first map[day]int64, near map[day]bool) {
	const step = 5 * 3600
	offsetAt := func(at int64) int64 {
		_, offset := time.Unix(at, 0).In(zone).Zone()
		return int64(offset)
	}
	first, near = map[day]int64{}, map[day]bool{}
	span := func(from, to, offset int64) {
		for d := (from + offset) / 86_400; d*86_400-offset < to; d++ {
			if _, known := first[day(d)]; !known {
				first[day(d)] = max(from, d*86_400-offset)
			}
		}
	}
	from := time.Date(1969, 12, 20, 0, 0, 0, 0, time.UTC).Unix() + 20*86_400
	end := time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	offset := offsetAt(from)
	for at := from + step; at < end; at += step {
		next := offsetAt(at)
		if next == offset {
			continue
		}
		low, high := at-step, at // the offset is another one from some second above low, at most high
		for low+1 < high {
			if middle := (low + high) / 2; offsetAt(middle) == offset {
				low = middle
			} else {
				high = middle
			}
		}
		span(from, high, offset)
		for d := day(high/86_400) - 3; d <= day(high/86_400)+3; d++ {
			near[d] = true
		}
		from, offset = high, next
	}
	span(from, end, offset)
	return first, near
}

// odd are zones with days that have no first hour, that have it twice, or that are skipped, with changes of offset at
// the end of a year, and with those of half an hour or less.
var odd = []string{
	"UTC", "Europe/Berlin", "America/Santiago", "America/St_Johns", "Pacific/Apia", "Pacific/Kwajalein", "Africa/Monrovia",
	"Asia/Beirut", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Casablanca",
}

// TestFirstAt_midnights_everywhere holds the midnights of odd zones and of some others, in a soak of all, against the
// definition: those around a change of the offset, and some of the others. It counts where time.Date returns
// another one.
func TestFirstAt_midnights_everywhere(t *testing.T) {
	all := zones(t)
	wrong := map[string]int{}
	checked, others := 0, assert.Rounds(16, 1)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i%others != 0 && !slices.Contains(odd, name) {
			continue
		}
		zone := all[name]
		first, near := midnights(zone)
		for d := day(21); d < 25_850; d++ {
			if !near[d] && d%89 != 0 {
				continue
			}
			date := d.date()
			got := firstAt(date, zone)
			want, known := first[d]
			if !known { // skipped: the next date's
				want = first[d+1]
			}
			if got.Unix() != want {
				t.Fatalf("%s, %s: begins at %v, want %v", name, date.Format(time.DateOnly), got, time.Unix(want, 0).In(zone))
			}
			checked++
			if known && time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, zone).Unix() != want {
				wrong[name]++
			}
		}
	}
	t.Logf("%d midnights of %d zones; time.Date differs in %d zones", checked, len(all), len(wrong))
	assert.ErrorIf(t, len(wrong) == 0, "time.Date is right everywhere, so that firstAt is not needed")
}

// calendars are all units, and starts of some: months that are too short for theirs, and weeks around their own start.
var calendars = []Calendar{
	{Unit: unitDay}, {Unit: unitWeek}, {Unit: unitMonth}, {Unit: unitYear}, {unitWeek, 1}, {unitWeek, 6}, {unitMonth, 1}, {unitMonth, 14},
	{unitMonth, 28}, {unitMonth, 29}, {unitMonth, 30},
}

// TestPeriods_everywhere holds the periods of calendars against those that the midnights make up.
func TestPeriods_everywhere(t *testing.T) {
	all, others := zones(t), assert.Rounds(13, 1)
	for _, name := range odd {
		zone := all[name]
		first, near := midnights(zone)
		for _, calendar := range calendars {
			periods := NewPeriods(calendar, zone)
			var starts []int64
			for _, d := range slices.Sorted(maps.Keys(first)) {
				before := d - 1
				for _, known := first[before]; !known && before > 0; _, known = first[before] {
					before--
				}
				if !calendar.first(d.date()).Equal(calendar.first(before.date())) {
					starts = append(starts, first[d]*1_000_000)
				}
			}
			for i := 3; i+2 < len(starts)-1; i++ {
				if i%others != 0 && !near[day(starts[i]/86_400_000_000)] {
					continue
				}
				want := Bounds(starts[i-1 : i+3])
				for _, at := range []int64{starts[i], starts[i] + 1, (starts[i] + starts[i+1]) / 2, starts[i+1] - 1} {
					if got := *periods.Around(at); got != want {
						t.Fatalf("%s of %s at %v: %s, want %s", calendar, name, time.UnixMicro(at).In(zone), got.in(zone), want.in(zone))
					}
				}
			}
		}
	}
}

// TestPeriods_times holds the periods of days with a time against the definition: of each date the first minute whose
// clock shows the time or a later one. Around changes of the offset it looks at each time that is left out or comes twice.
func TestPeriods_times(t *testing.T) {
	all := zones(t)
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Santiago", "America/St_Johns", "Australia/Lord_Howe", "Asia/Beirut", "Africa/Casablanca"} {
		zone := all[name]
		for _, from := range []string{"2026-03-06", "2026-03-27", "2026-04-03", "2026-09-04", "2026-10-02", "2026-10-23", "2026-10-30", "2026-06-01"} {
			date := assert.NoError(time.Parse(time.DateOnly, from))(t)
			for _, at := range []int{1, 15, 30, 59, 60, 90, 119, 120, 121, 150, 180, 360, 1439} {
				var starts []int64
				for d := range 9 {
					shown := date.AddDate(0, 0, d).Add(time.Duration(at) * time.Minute)
					start := shown.Add(-27 * time.Hour)
					for shownBy(start, zone).Before(shown) {
						start = start.Add(time.Minute)
					}
					starts = append(starts, start.UnixMicro())
				}
				periods := NewPeriods(Calendar{unitDay, at}, zone)
				for i := 1; i+2 < len(starts); i++ {
					want := Bounds(starts[i-1 : i+3])
					for _, instant := range []int64{starts[i], (starts[i] + starts[i+1]) / 2, starts[i+1] - 1} {
						if got := *periods.Around(instant); got != want {
							t.Fatalf("%s of %s at %v: %s, want %s", periods.of, name, time.UnixMicro(instant).In(zone), got.in(zone), want.in(zone))
						}
					}
				}
			}
		}
	}
}

// shownBy returns what clocks of a zone show at an instant, as a time of UTC.
func shownBy(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return at.Add(time.Duration(offset) * time.Second)
}

func TestParseCalendar(t *testing.T) {
	for text, want := range map[string]struct{ shown, code string }{
		"day": {"day", ""}, "week": {"week", ""}, "month": {"month", ""}, "year": {"year", ""}, "day@00:00": {"day", ""},
		"week@monday": {"week", ""}, "month@1": {"month", ""}, "day@00:01": {"day@00:01", "@0001"}, "day@06:00": {"day@06:00", "@0600"},
		"day@23:59": {"day@23:59", "@2359"}, "week@tuesday": {"week@tuesday", "@2"}, "week@sunday": {"week@sunday", "@7"},
		"month@2": {"month@2", "@2"}, "month@31": {"month@31", "@31"},
	} {
		c, ok := ParseCalendar(text)
		assert.ErrorIf(t, !ok || c.String() != want.shown || c.Code() != want.code, "%s: %v, %v, code %q", text, ok, c, c.Code())
		again, ok := ParseCalendar(c.String())
		assert.ErrorIf(t, !ok || again != c, "%s again: %v", c, again)
	}
	for _, text := range []string{
		"", "@", "@1", "decade", "hour@5", "year@1", "year@", "month@", "month@0", "month@32", "month@01", "month@-1", "month@+1", "month@ 1", "month@1 ",
		"month@1.5", "month@monday", "month@1@1", "week@", "week@1", "week@Monday", "week@mon", "week@funday", "day@", "day@6:00", "day@6", "day@24:00",
		"day@25:00", "day@06:60", "day@06:00:00", "day@0600", "Month@15", "month@9223372036854775808",
	} {
		c, ok := ParseCalendar(text)
		assert.ErrorIf(t, ok || c != Calendar{}, "%q: %v", text, c)
	}
}

func (b *Bounds) in(zone *time.Location) string {
	var texts []string
	for _, at := range b {
		texts = append(texts, time.UnixMicro(at).In(zone).Format(time.RFC3339))
	}
	return strings.Join(texts, " ")
}

func TestPeriods_vectors(t *testing.T) {
	for _, test := range []struct {
		zone, at, calendar string

		want string // the second to the fourth bound
	}{
		{"Europe/Berlin", "2026-02-10T12:00:00Z", "month", "1769900400 1772319600 1774994400"},
		{"Europe/Berlin", "2026-03-29T12:00:00Z", "day", "1774738800 1774821600 1774908000"},                   // 23 hours
		{"Europe/Berlin", "2026-10-25T12:00:00Z", "day", "1792879200 1792969200 1793055600"},                   // 25 hours
		{"America/Santiago", "2026-09-06T12:00:00Z", "day", "2026-09-06T01:00:00-03:00"},                       // without its first hour
		{"Africa/Cairo", "2026-04-24T12:00:00Z", "day", "2026-04-24T01:00:00+03:00 2026-04-25T00:00:00+03:00"}, // the same, east of Greenwich
		{"Atlantic/Azores", "2026-10-25T00:30:00Z", "day", "2026-10-25T00:00:00Z 2026-10-26T00:00:00-01:00"},   // before its second midnight
		{"Atlantic/Azores", "2026-10-25T12:00:00Z", "day", "2026-10-25T00:00:00Z 2026-10-26T00:00:00-01:00"},   // after that
		{"Pacific/Apia", "2011-12-30T09:59:59Z", "day", "2011-12-29T00:00:00-10:00 2011-12-31T00:00:00+14:00"}, // without the 30th
		{"UTC", "2027-01-03T23:00:00Z", "week", "2026-12-28T00:00:00Z 2027-01-04T00:00:00Z"},                   // week 53
		{"UTC", "2028-02-29T00:00:00Z", "month", "2028-02-01T00:00:00Z 2028-03-01T00:00:00Z"},
		{"UTC", "2028-12-31T23:59:59Z", "year", "2028-01-01T00:00:00Z 2029-01-01T00:00:00Z"},
		{"UTC", "1970-01-01T00:00:00Z", "month", "1970-01-01T00:00:00Z 1970-02-01T00:00:00Z"},
		{"America/New_York", "1970-01-01T00:00:10Z", "month", "0 1970-01-01T05:00:00Z"}, // none is below 0
		{"UTC", "2026-02-27T23:59:59Z", "month@31", "2026-01-31T00:00:00Z 2026-02-28T00:00:00Z 2026-03-31T00:00:00Z"},
		{"UTC", "2026-04-30T00:00:00Z", "month@31", "2026-04-30T00:00:00Z 2026-05-31T00:00:00Z 2026-06-30T00:00:00Z"},
		{"UTC", "2028-02-29T12:00:00Z", "month@30", "2028-02-29T00:00:00Z 2028-03-30T00:00:00Z 2028-04-30T00:00:00Z"},
		{"UTC", "2027-03-01T00:00:00Z", "month@29", "2027-02-28T00:00:00Z 2027-03-29T00:00:00Z 2027-04-29T00:00:00Z"},
		{"Europe/Berlin", "2026-12-14T22:59:59Z", "month@15", "2026-11-15T00:00:00+01:00 2026-12-15T00:00:00+01:00 2027-01-15T00:00:00+01:00"},
		{"Europe/Berlin", "2026-10-25T12:00:00Z", "week@wednesday", "2026-10-21T00:00:00+02:00 2026-10-28T00:00:00+01:00 2026-11-04T00:00:00+01:00"},
		{"Europe/Berlin", "2026-03-29T01:00:00Z", "day@02:30", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},    // left out
		{"Europe/Berlin", "2026-10-25T01:30:00Z", "day@02:30", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},    // twice
		{"Europe/Berlin", "2026-10-25T01:00:00Z", "day@03:00", "2026-10-24T03:00:00+02:00 2026-10-25T03:00:00+01:00"},    // once, behind the change
		{"America/Santiago", "2026-09-06T03:59:59Z", "day@00:30", "2026-09-05T00:30:00-04:00 2026-09-06T01:00:00-03:00"}, // left out with midnight
		{"Pacific/Apia", "2011-12-30T12:00:00Z", "month@30", "2011-12-31T00:00:00+14:00 2012-01-30T00:00:00+14:00"},      // without that date
		{"UTC", "1970-01-01T00:00:00Z", "month@15", "0 1970-01-15T00:00:00Z 1970-02-15T00:00:00Z"},
		{"UTC", "2255-06-01T00:00:00Z", "year", "2255-01-01T00:00:00Z 2256-01-01T00:00:00Z"},
	} {
		zone := assert.NoError(time.LoadLocation(test.zone))(t)
		at := assert.NoError(time.Parse(time.RFC3339, test.at))(t)
		calendar, ok := ParseCalendar(test.calendar)
		assert.FatalIf(t, !ok, "%s is no calendar", test.calendar)
		bounds := NewPeriods(calendar, zone).Around(at.UnixMicro())
		for i, text := range strings.Fields(test.want) {
			want, err := time.Parse(time.RFC3339, text)
			if err != nil {
				want = time.Unix(assert.NoError(strconv.ParseInt(text, 10, 64))(t), 0)
			}
			if got := time.UnixMicro(bounds[i+1]); !got.Equal(want) {
				t.Errorf("%s of %s at %s: bound %d is %v, want %v", test.calendar, test.zone, test.at, i+1, got.In(zone), want)
			}
		}
	}
}

// TestPeriods_By finds each period as much earlier as a clock is behind.
func TestPeriods_By(t *testing.T) {
	at := time.Date(2026, 6, 15, 0, 0, 0, 0, time.UTC).UnixMicro()
	right := *NewPeriods(Calendar{Unit: unitMonth}, time.UTC).Around(at)
	for _, ahead := range []int64{0, 5, -5, 3 * 86_400_000_000} {
		got := *NewPeriods(Calendar{Unit: unitMonth}, time.UTC).By(ahead).Around(at - ahead)
		for i := range got {
			assert.ErrorIf(t, got[i] != right[i]-ahead, "%d ahead: bound %d is %d, want %d", ahead, i, got[i], right[i]-ahead)
		}
	}
}

func TestBounds_Nearest(t *testing.T) {
	b := Bounds{0, 100, 190, 300} // the shortest period is of 90
	for start, want := range map[int64]int{0: 0, 45: 0, 46: -1, 54: -1, 55: 1, 100: 1, 145: 2, 144: 1, 190: 2, 235: 2, 236: -1, 255: 3, 345: 3, 346: -1} {
		assert.Equal(t, b.nearest(start), want, "%d", start)
	}
}

// TestPeriods_Around_is_cached allows no allocation, and so no search of a zone, within a period.
func TestPeriods_Around_is_cached(t *testing.T) {
	zone := assert.NoError(time.LoadLocation("Europe/Berlin"))(t)
	periods := NewPeriods(Calendar{Unit: unitMonth}, zone)
	at := time.Date(2026, 6, 15, 0, 0, 0, 0, zone).UnixMicro()
	periods.Around(at)
	allocations := testing.AllocsPerRun(1000, func() { at++; periods.Around(at) })
	assert.ErrorIf(t, allocations > 0, "%v allocations for each instant", allocations)
}

func BenchmarkPeriods_Around(b *testing.B) {
	zone := assert.NoError(time.LoadLocation("Europe/Berlin"))(b)
	at := time.Date(2026, 6, 15, 0, 0, 0, 0, zone).UnixMicro()
	b.Run("same period", func(b *testing.B) {
		periods := NewPeriods(Calendar{Unit: unitMonth}, zone)
		for b.Loop() {
			periods.Around(at)
		}
	})
	b.Run("another period", func(b *testing.B) {
		periods := NewPeriods(Calendar{Unit: unitDay}, zone)
		for i := int64(0); b.Loop(); i++ {
			periods.Around(at + i%365*86_400_000_000)
		}
	})
}

func TestMain(m *testing.M) {
	_ = os.Unsetenv("ZONEINFO")
	os.Exit(m.Run())
}
