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

// TestMidnight_everywhere holds the midnights of odd zones and of some others, in a soak of all, against the
// definition: those around a change of the offset, and some of the others. It counts where time.Date returns
// another one.
func TestMidnight_everywhere(t *testing.T) {
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
			got := midnight(date, zone)
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
	assert.ErrorIf(t, len(wrong) == 0, "time.Date is right everywhere, so that Midnight is not needed")
}

// TestPeriods_everywhere holds the periods of all units against those that the midnights make up.
func TestPeriods_everywhere(t *testing.T) {
	all, others := zones(t), assert.Rounds(13, 1)
	for _, name := range odd {
		zone := all[name]
		first, near := midnights(zone)
		for _, unit := range Units() {
			periods := NewPeriods(unit, zone)
			var starts []int64
			for _, d := range slices.Sorted(maps.Keys(first)) {
				before := d - 1
				for _, known := first[before]; !known && before > 0; _, known = first[before] {
					before--
				}
				if !unit.first(d.date()).Equal(unit.first(before.date())) {
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
						t.Fatalf("%s of %s at %v: %s, want %s", unit, name, time.UnixMicro(at).In(zone), got.in(zone), want.in(zone))
					}
				}
			}
		}
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
		zone, at string
		unit     Unit
		want     string // the second to the fourth bound
	}{
		{"Europe/Berlin", "2026-02-10T12:00:00Z", unitMonth, "1769900400 1772319600 1774994400"},
		{"Europe/Berlin", "2026-03-29T12:00:00Z", unitDay, "1774738800 1774821600 1774908000"},                   // 23 hours
		{"Europe/Berlin", "2026-10-25T12:00:00Z", unitDay, "1792879200 1792969200 1793055600"},                   // 25 hours
		{"America/Santiago", "2026-09-06T12:00:00Z", unitDay, "2026-09-06T01:00:00-03:00"},                       // without its first hour
		{"Africa/Cairo", "2026-04-24T12:00:00Z", unitDay, "2026-04-24T01:00:00+03:00 2026-04-25T00:00:00+03:00"}, // the same, east of Greenwich
		{"Atlantic/Azores", "2026-10-25T00:30:00Z", unitDay, "2026-10-25T00:00:00Z 2026-10-26T00:00:00-01:00"},   // before its second midnight
		{"Atlantic/Azores", "2026-10-25T12:00:00Z", unitDay, "2026-10-25T00:00:00Z 2026-10-26T00:00:00-01:00"},   // after that
		{"Pacific/Apia", "2011-12-30T09:59:59Z", unitDay, "2011-12-29T00:00:00-10:00 2011-12-31T00:00:00+14:00"}, // without the 30th
		{"UTC", "2027-01-03T23:00:00Z", unitWeek, "2026-12-28T00:00:00Z 2027-01-04T00:00:00Z"},                   // week 53
		{"UTC", "2028-02-29T00:00:00Z", unitMonth, "2028-02-01T00:00:00Z 2028-03-01T00:00:00Z"},
		{"UTC", "2028-12-31T23:59:59Z", unitYear, "2028-01-01T00:00:00Z 2029-01-01T00:00:00Z"},
		{"UTC", "1970-01-01T00:00:00Z", unitMonth, "1970-01-01T00:00:00Z 1970-02-01T00:00:00Z"},
		{"America/New_York", "1970-01-01T00:00:10Z", unitMonth, "0 1970-01-01T05:00:00Z"}, // none is below 0
		{"UTC", "2255-06-01T00:00:00Z", unitYear, "2255-01-01T00:00:00Z 2256-01-01T00:00:00Z"},
	} {
		zone := assert.NoError(time.LoadLocation(test.zone))(t)
		at := assert.NoError(time.Parse(time.RFC3339, test.at))(t)
		bounds := NewPeriods(test.unit, zone).Around(at.UnixMicro())
		for i, text := range strings.Fields(test.want) {
			want, err := time.Parse(time.RFC3339, text)
			if err != nil {
				want = time.Unix(assert.NoError(strconv.ParseInt(text, 10, 64))(t), 0)
			}
			if got := time.UnixMicro(bounds[i+1]); !got.Equal(want) {
				t.Errorf("%s of %s at %s: bound %d is %v, want %v", test.unit, test.zone, test.at, i+1, got.In(zone), want)
			}
		}
	}
}

// TestPeriods_By finds each period as much earlier as a clock is behind.
func TestPeriods_By(t *testing.T) {
	at := time.Date(2026, 6, 15, 0, 0, 0, 0, time.UTC).UnixMicro()
	right := *NewPeriods(unitMonth, time.UTC).Around(at)
	for _, ahead := range []int64{0, 5, -5, 3 * 86_400_000_000} {
		got := *NewPeriods(unitMonth, time.UTC).By(ahead).Around(at - ahead)
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
	periods := NewPeriods(unitMonth, zone)
	at := time.Date(2026, 6, 15, 0, 0, 0, 0, zone).UnixMicro()
	periods.Around(at)
	allocations := testing.AllocsPerRun(1000, func() { at++; periods.Around(at) })
	assert.ErrorIf(t, allocations > 0, "%v allocations for each instant", allocations)
}

func BenchmarkPeriods_Around(b *testing.B) {
	zone := assert.NoError(time.LoadLocation("Europe/Berlin"))(b)
	at := time.Date(2026, 6, 15, 0, 0, 0, 0, zone).UnixMicro()
	b.Run("same period", func(b *testing.B) {
		periods := NewPeriods(unitMonth, zone)
		for b.Loop() {
			periods.Around(at)
		}
	})
	b.Run("another period", func(b *testing.B) {
		periods := NewPeriods(unitDay, zone)
		for i := int64(0); b.Loop(); i++ {
			periods.Around(at + i%365*86_400_000_000)
		}
	})
}

func TestMain(m *testing.M) {
	_ = os.Unsetenv("ZONEINFO")
	os.Exit(m.Run())
}
