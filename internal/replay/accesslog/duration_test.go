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
			if entries, _ := readAll(t, o); len(entries) != 1 || entries[0].Time != want {
				t.Errorf("%s: %+v, want the time %d", line, entries, want)
			}
		}
	}
}

func TestParser_duration(t *testing.T) {
	p := newParser(&Options{})
	for value, want := range map[string]string{
		"0.25": "250000", "1": "1000000", `"1.5ms"`: "1500", `"x"`: "none", "-1": "none", "null": "none", "1e300": "none", "[1]": "none", "": "none",
		"172800": "172800000000", "604801": "none", `"169h"`: "none",
	} {
		took, known := p.duration(value)
		got := fmt.Sprint(took)
		if !known {
			got = "none"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}
}
