package accesslog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/logging"
)

func TestReader_DurationFormat(t *testing.T) {
	for _, format := range []string{"", "s", "second", "seconds", "ms", "milli", "millis", "ns", "nano", "nanos", "string", "unknown"} {
		for _, took := range []time.Duration{1500 * time.Millisecond, 12 * time.Second, 2 * time.Hour, 15 * time.Microsecond} {
			line := encode(t, logging.LogEncoderConfig{DurationFormat: format}, took)
			want := ended.Add(-took).UnixMicro()
			if strings.HasPrefix(format, "m") {
				want = ended.Add(-took.Truncate(time.Millisecond)).UnixMicro()
			}
			o := Options{Files: []string{"-"}, Stdin: strings.NewReader(line), DurationFormat: format}
			if format == "" {
				o.DurationFormat = "seconds"
			}
			if entries, s := readAll(t, o); len(entries) != 1 || entries[0].Time != want || s.Files[0].GuessedDurations {
				t.Errorf("%s: %+v, want the time %d", line, entries, want)
			}
		}
	}
}

func TestDurations_unit(t *testing.T) {
	tests := []struct {
		name    string
		format  string
		values  string
		want    string // microseconds
		guessed bool
	}{
		{"seconds", "", "0.25 1 2", "250000 1000000 2000000", false},
		{"milliseconds, one of them long", "", "5 7 60000", "5000 7000 60000000", false},
		{"milliseconds, of long polls alone", "", "12000 30001 25000 120000", "12000000 30001000 25000000 120000000", true},
		{"milliseconds, of long polls and a few requests", "", "12000 0 3 120000 1800000", "12000000 0 3000 120000000 1800000000", false},
		{"nanoseconds, one of them short", "", "181000 5000000 900", "181 5000 0", false},
		{"nanoseconds, most of them short", "", "1000000 15000 20000 15000", "1000 15 20 15", false},
		{"nanoseconds, below a millisecond", "", "72295 98003 64971 41000", "72 98 64 41", false},
		{"text", "", `"1.5ms" "2s" "x"`, "1500 2000000 none", false},
		{"nonsense", "", "-1 null 1e300 [1] 80000000000000", "none none none none 80000000000", false},
		{"a weekend", "", "0.5 172800", "500000 172800000000", false},
		{"longer than a week", "", "0.5 604801", "500000 none", false},
		{"the configuration says seconds", "seconds", "12 30 12000", "12000000 30000000 12000000000", false},
		{"the configuration says milliseconds", "ms", "1800000 5000000", "1800000000 5000000000", false},
		{"the configuration says nanoseconds", "nano", "12000 900 25000", "12 0 25", false},
		{"the configuration says text, the log does not", "string", `5 7 "1s"`, "5000 7000 1000000", false},
		{"the configuration is newer than the log", "ms", "0.5 12", "500000 12000000", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDurations(tt.format)
			var got []string
			for value := range strings.FieldsSeq(tt.values) {
				took, known := d.read(value)
				if got = append(got, fmt.Sprint(took)); !known {
					got[len(got)-1] = "none"
				}
			}
			if all := strings.Join(got, " "); all != tt.want || d.guessed() != tt.guessed {
				t.Errorf("got %s, guessed %t; want %s", all, d.guessed(), tt.want)
			}
		})
	}
}

func TestReader_unit_from_first_line(t *testing.T) {
	line := func(duration int) string {
		return fmt.Sprintf(`{"ts":1750000000,"request":{"client_ip":"1.2.3.4"},"duration":%d,"size":1}`+"\n", duration)
	}
	log := line(15_000) + strings.Repeat(line(2_000_000), 5) // nanoseconds, the first like milliseconds
	entries, s := readAll(t, Options{Files: []string{writeFile(t, "log", []byte(log))}})
	if len(entries) != 6 || entries[0].Time != second-2000 || entries[5].Time != second-15 {
		t.Errorf("%+v", entries)
	}
	if len(s.Warnings()) != 0 {
		t.Errorf("warnings are %q", s.Warnings())
	}
}

func TestSummary_Warnings_durations(t *testing.T) {
	line := `{"ts":1750000000,"request":{"client_ip":"1.2.3.4"},"duration":12000,"size":1}` + "\n"
	for format, want := range map[string]int{"": 1, "ms": 0, "ns": 0} {
		_, s := readAll(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(line), DurationFormat: format})
		if got := s.Warnings(); len(got) != want || want > 0 && !strings.Contains(got[0], "read as milliseconds") {
			t.Errorf("%q: warnings are %q", format, got)
		}
	}
}
