package accesslog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap/zapcore"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// ended is when the requests of these tests ended; they took 1.5 s.
var ended = time.Date(2025, 6, 15, 15, 6, 41, 500_000_000, time.UTC)

// encode writes a line as Caddy does under settings of its encoder.
func encode(t *testing.T, c logging.LogEncoderConfig, took time.Duration) string {
	t.Helper()
	b, err := zapcore.NewJSONEncoder(c.ZapcoreEncoderConfig()).EncodeEntry(
		zapcore.Entry{Time: ended, LoggerName: "http.log.access.log0", Message: "handled request"},
		[]zapcore.Field{
			{Key: "request", Type: zapcore.ObjectMarshalerType, Interface: request{}},
			{Key: "duration", Type: zapcore.DurationType, Integer: int64(took)},
			{Key: "size", Type: zapcore.Int64Type, Integer: 5},
			{Key: "status", Type: zapcore.Int64Type, Integer: 200},
		})
	assert.Must(t, err)
	return b.String()
}

// request is what is logged of a request.
type request struct{}

func (request) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("client_ip", "1.2.3.4")
	enc.AddString("uri", "/\t\"é")
	return nil
}

// TestReader_time_formats reads times under any key, in Caddy's forms and in others that a configuration names.
func TestReader_time_formats(t *testing.T) {
	for format, lost := range map[string]int64{ // microseconds that the format does not write
		"": 0, "unix_seconds_float": 0, "unix_milli_float": 0, "unix_nano": 0, "iso8601": 0, "rfc3339": 500_000, "rfc3339_nano": 0,
		"wall": 500_000, "wall_milli": 0, "wall_nano": 0, "common_log": 500_000,
		"01/02/2006 15:04:05.000": 0, "02/01/2006 15:04:05.000": 0, "3:04:05.000PM 02-Jan-06": 0, "2006-01-02T15:04:05.000 MST": 0, "150405.000 20060102": 0,
	} {
		for _, key := range []string{"", "time", "@timestamp", "when"} {
			c, layouts := logging.LogEncoderConfig{TimeFormat: format}, []string(nil)
			if key != "" {
				c.TimeKey = &key
			}
			if _, named := caddyLayouts[format]; !named && format != "" {
				layouts = []string{"common_log", format}
			}
			line := encode(t, c, 1500*time.Millisecond)
			entries, s := readTimed(t, line+line, layouts...)
			assert.ErrorIf(t, len(entries) != 2 || entries[0].Time != second-lost || entries[1].Time != second-lost,
				"%s: %+v %v", line, entries, s.Skipped)
		}
	}
}

func TestReader_Caddy_JSON(t *testing.T) {
	entries, s := readText(t, caddyLine("1750000000.5", "2001:db8::1"))
	assert.FatalIf(t, len(entries) != 1 || s.Files[0].Formats[caddyJSONName] != 1, "%v", s.Skipped)
	e := entries[0]
	want := "2001:db8::1||GET /a?b=1 HTTP/1.1|200 2|||example.com"
	assert.ErrorIf(t, fieldsOf(&e) != want || e.Remote != "10.0.0.1" || e.Time != second, "got %+v", e)
	if got := fmt.Sprint(e.Header); got != "map[Accept:[*/* b] Authorization:[REDACTED] User-Agent:[Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36] X-Api-Key:[k1]]" {
		t.Errorf("header %s", got)
	}
	assert.ErrorIf(t, fmt.Sprint(s.Redacted) != "map[Authorization:1]", "redacted %v", s.Redacted)
}

func TestReader_renamed_keys(t *testing.T) {
	for name, line := range map[string]string{
		"all of the encoder's": `{"lvl":"info","at":"2025-06-15T15:06:40Z","who":"x","text":"handled request","request":{"client_ip":"1.2.3.4"}}`,
		"no client_ip":         `{"ts":1750000000,"request":{"remote_ip":"1.2.3.4"},"size":1}`,
		"blanks everywhere":    ` { "ts" : 1750000000 , "request" : { "client_ip" : "1.2.3.4" } , "size" : 1 } `,
		"two times":            `{"time":"2024-06-15T15:06:40Z","request":{"client_ip":"1.2.3.4"},"size":1,"ts":1750000000}`,
	} {
		entries, s := readText(t, line)
		assert.ErrorIf(t, len(entries) != 1 || entries[0].Time != second || entries[0].Client != "1.2.3.4",
			"%s: %+v %v", name, entries, s.Skipped)
	}
}

func TestReader_TLS(t *testing.T) {
	const rest = `,"ts":1750000000,"size":1}`
	for line, want := range map[string]bool{
		strings.TrimSpace(caddyLine("1750000000.5", "a")):     true,
		`{"request":{"uri":"/","tls":{"version":772}}` + rest: true,
		`{"request":{"uri":"/"}` + rest:                       false,
		`{"request":{"uri":"/","tls":null}` + rest:            false,
	} {
		entries, _ := readText(t, line)
		assert.ErrorIf(t, len(entries) != 1 || entries[0].TLS != want, "%s: %+v, want %t", line, entries, want)
	}
}

func TestReader_other_messages(t *testing.T) {
	entries, s := readText(t, strings.Join([]string{
		`{"level":"info","ts":1750000000.5,"msg":"serving initial configuration"}`,
		`{"level":"error","ts":1750000000.5,"logger":"http.log.error","msg":"x","request":{"client_ip":"1.2.3.4"},"duration":0.1,"status":500,"err_id":"x"}`,
		`{"level":"debug","ts":1750000000.5,"logger":"http.handlers.reverse_proxy","msg":"upstream roundtrip","request":{"client_ip":"1.2.3.4"},"status":200}`,
		``,
		` {}`,
	}, "\n"))
	if total := s.Total(); len(entries) != 0 || total.Other != 5 || total.Malformed != 0 || total.Lines != 5 {
		t.Errorf("%d entries, %+v", len(entries), total)
	}
}

func timedLine(at string) string {
	return fmt.Sprintf(`{"when":%s,"request":{"client_ip":"1.2.3.4"},"size":1}`+"\n", at)
}

func readTimed(t *testing.T, log string, layouts ...string) ([]Entry, Summary) {
	t.Helper()
	return readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log), TimeLayouts: layouts, AtSecondStart: true})
}

func TestReader_unreadable_times(t *testing.T) {
	for _, at := range []string{`"06/15/2025 15:06:40"`, `"05/06/2025 15:06:40"`, `"at noon"`, `null`, `"15:06:40.123"`, `"3:06PM"`, `17`} {
		entries, s := readTimed(t, timedLine(at), "3:04PM")
		assert.ErrorIf(t, len(entries) != 0 || len(s.Skipped) != 1 || s.Skipped[0].Reason != noTime.kind, "%s: %+v %+v", at, entries, s.Skipped)
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
		assert.ErrorIf(t, len(entries) != 2 || entries[0].Time/1e6 != second/1e6 || s.Zoneless != tt.zoneless,
			"%s: %d zoneless, %v, %+v", tt.time, s.Zoneless, entries, s.Skipped)
		warned := strings.Contains(strings.Join(s.Warnings(), "\n"), "1 request with a time without a known zone")
		assert.ErrorIf(t, warned != (tt.zoneless > 0), "%s: warnings are %q", tt.time, s.Warnings())
	}
}

// TestJSONTimes_zone_names reads a name of a zone alike on every machine: it has no offset that all agree on.
func TestJSONTimes_zone_names(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	time.Local = time.FixedZone("IST", 19_800)
	times, e := newJSONTimes([]string{"2006-01-02 15:04:05 MST"}), &Entry{}
	want := time.Date(2026, 9, 21, 14, 13, 20, 0, time.UTC).UnixMicro()
	assert.ErrorIf(t, !times.read(`"2026-09-21 14:13:20 IST"`, e) || e.Time != want || !e.zoneless,
		"%+v, want %d and no zone", e, want)
}

func TestReader_DurationFormat(t *testing.T) {
	for _, format := range []string{"", "s", "second", "seconds", "ms", "milli", "millis", "ns", "nano", "nanos", "string", "unknown"} {
		for _, took := range []time.Duration{1500 * time.Millisecond, 12 * time.Second, 2 * time.Hour, 15 * time.Microsecond} {
			line := encode(t, logging.LogEncoderConfig{DurationFormat: format}, took)
			want := ended.Add(-took).UnixMicro()
			if strings.HasPrefix(format, "m") {
				want = ended.Add(-took.Truncate(time.Millisecond)).UnixMicro()
			}
			o := ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(line), DurationFormats: []string{format}}
			if entries, _ := readAll(t, o); len(entries) != 1 || entries[0].Time != want {
				t.Errorf("%s: %+v, want the time %d", line, entries, want)
			}
		}
	}
}

func TestReader_duration(t *testing.T) {
	for value, want := range map[string]int64{ // microseconds, -1 for unknown
		"0.25": 250_000, "1": 1_000_000, `"1.5ms"`: 1500, "0": 0, "172800": 172_800_000_000,
		`"x"`: -1, "-1": -1, "null": -1, "1e300": -1, "[1]": -1, "604801": -1, `"169h"`: -1, `""`: -1,
	} {
		entries, _ := readText(t, strings.Replace(caddyLine("1750000000", "a"), `"duration":0.5`, `"duration":`+value, 1))
		ends := second
		if want < 0 {
			want, ends = 0, 0
		}
		assert.ErrorIf(t, entries[0].Ends != ends || entries[0].Time != second-want, "%s: %+v", value, entries[0])
	}
	entries, _ := readText(t, clfLine(0, "a")+timedLine("1750000000"))
	assert.ErrorIf(t, entries[0].Ends != 0 || entries[1].Ends != 0, "%+v", entries)
}
