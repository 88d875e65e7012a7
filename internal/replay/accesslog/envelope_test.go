package accesslog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// wrappings put a line into each envelope.
var wrappings = map[string]func(line string) string{
	"Docker's json-file": func(line string) string {
		return fmt.Sprintf(`{"log":%s,"stream":"stdout","attrs":{"tag":"web"},"time":"2026-11-27T19:11:05.353919029Z"}`, quoteJSON(line+"\n"))
	},
	"the journal's JSON": func(line string) string {
		return fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"1795806665353919","_HOSTNAME":"vm","MESSAGE":%s}`, quoteJSON(line))
	},
	"the journal's bytes": func(line string) string {
		return fmt.Sprintf(`{"MESSAGE":%s,"__REALTIME_TIMESTAMP":"1795806665353919"}`, strings.ReplaceAll(fmt.Sprintf("%d", []byte(line)), " ", ","))
	},
	"Docker Compose":    func(line string) string { return "my_app-web-1  | " + line },
	"Kubernetes":        func(line string) string { return "2026-11-27T19:11:05.353919029+01:00 stderr F " + line },
	"docker logs -t":    func(line string) string { return "2026-11-27T19:11:05.353919029Z " + line },
	"RFC 3164":          func(line string) string { return "<134>Nov  7 19:47:57 vm nginx: " + line },
	"the journal":       func(line string) string { return "Nov 27 19:47:57 vm nginx[123]: " + line },
	"rsyslog":           func(line string) string { return "2026-11-27T19:47:57.123456+00:00 vm docker/web[123]: " + line },
	"RFC 5424":          func(line string) string { return "<165>1 2026-11-27T19:47:57.003Z vm nginx 12 - - " + line },
	"RFC 5424 and data": func(line string) string { return `<165>1 - vm nginx 12 ID47 [a@1 b="]\" c"][d@1] ` + "\ufeff" + line },
	"two":               func(line string) string { return "web-1  | <134>Nov  7 19:47:57 vm nginx: " + line },
	"none":              func(line string) string { return line },
}

func quoteJSON(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

// TestEnvelopes reads the same lines in each envelope, and lines that are in none.
func TestEnvelopes(t *testing.T) {
	lines := []string{
		strings.TrimSpace(clfLine(1, "1.1.1.1")), strings.TrimSpace(caddyLine("1750000002.5", "2.2.2.2")), strings.TrimSpace(clfLine(3, "3.3.3.3")) + ` "-" "é\x22 \\"`,
		strings.TrimSpace(clfLine(4, "4.4.4.4")),
	}
	for name, wrap := range wrappings {
		var log strings.Builder
		for _, line := range lines {
			log.WriteString(wrap(line) + "\n")
		}
		entries, s := readText(t, log.String()+"9.9.9.9 <- no request\n")
		var got []string
		for i := range entries {
			got = append(got, entries[i].Client)
		}
		assert.Equal(t, strings.Join(got, " "), "1.1.1.1 2.2.2.2 3.3.3.3 4.4.4.4", "%s: %+v", name, s.Skipped)
		assert.ErrorIf(t, s.Total().Malformed != 1, "%s: %+v", name, s.Skipped)
	}
}

// TestEnvelopes_hostile has clients write envelopes into a log that has none, and into one that has.
func TestEnvelopes_hostile(t *testing.T) {
	forged := strings.TrimSpace(clfLine(9, "9.9.9.9"))
	for name, wrap := range wrappings {
		log := ""
		for i := range 9 {
			log += wrap(strings.TrimSpace(clfLine(i, "1.1.1.1"))+fmt.Sprintf(` "-" %q`, wrappings["Kubernetes"](forged))) + "\n"
		}
		log += wrappings["Kubernetes"](forged)[:30] + "\n"
		entries, s := readText(t, log)
		isForged := func(e Entry) bool { return e.Client != "1.1.1.1" }
		assert.ErrorIf(t, len(entries) != 9 || slices.ContainsFunc(entries, isForged), "%s: %d entries, %+v", name, len(entries), s.Skipped)
	}
}

// TestOpener_parts joins the parts of lines, of two streams that alternate.
func TestOpener_parts(t *testing.T) {
	line := strings.TrimSpace(clfLine(1, "1.1.1.1"))
	cri := func(stream, tag, text string) string {
		return "2026-11-27T19:11:05Z " + stream + " " + tag + " " + text + "\n"
	}
	docker := func(text string) string {
		return fmt.Sprintf(`{"log":%s,"stream":"stdout","time":"2026-11-27T19:11:05Z"}`, quoteJSON(text)) + "\n"
	}
	long := strings.Repeat("x", 300_000)
	for _, tt := range []struct {
		name, log               string
		requests, other, unread int64
	}{
		{"CRI", cri("stdout", "P", line[:20]) + cri("stderr", "F", line) + cri("stdout", "P", line[20:40]) + cri("stdout", "F", line[40:]), 2, 2, 0},
		{"CRI, more tags", cri("stdout", "P:x", line[:20]) + cri("stdout", "F:y", line[20:]), 1, 1, 0},
		{"Docker", docker(line[:20]) + docker(line[20:]+"\n") + docker(line+"\n"), 2, 1, 0},
		{"without the end", cri("stdout", "F", line) + cri("stdout", "P", line[:20]), 1, 1, 0},
		{"a mebibyte", cri("stdout", "F", line) + cri("stdout", "P", strings.Replace(line, "/1", "/"+long, 1)[:300_000]) +
			cri("stdout", "P", long) + cri("stdout", "P", long) + cri("stdout", "P", long) + cri("stdout", "F", `" 200 5`) + cri("stdout", "F", line), 2, 4, 1},
		{"empty", cri("stdout", "F", line) + "2026-11-27T19:11:05Z stdout F\n" + "2026-11-27T19:11:05Z stdout F \n", 1, 2, 0},
	} {
		_, s := readText(t, tt.log)
		total := s.Total()
		assert.ErrorIf(t, s.Entries != tt.requests || total.Other != tt.other || total.Malformed != tt.unread, "%s: %d requests, %+v %+v", tt.name, s.Entries, total, s.Skipped)
	}
}

// TestOpenConsole reads Caddy's console format, with and without colors, in each envelope.
func TestOpenConsole(t *testing.T) {
	object := strings.TrimSpace(caddyLine("1", "1.1.1.1"))
	_, object, _ = strings.Cut(object, `"logger":"http.log.access.log0","msg":"handled request",`)
	var log strings.Builder
	for _, level := range []string{"\x1b[34mINFO\x1b[0m", "INFO"} {
		log.WriteString("2025/06/15 15:06:41.000\t" + level + "\thttp.log.access.log0\thandled request\t{" + object + "\n")
	}
	log.WriteString("2025/06/15 15:06:41.000\tINFO\tserving\t{\"a\": 1}\n2025/06/15 15:06:41.000\tINFO\thello\n")
	rsyslog := strings.NewReplacer("\t", "#011", "\x1b", "#033")
	wraps := map[string]func(line string) string{"rsyslog's escapes": func(line string) string { return wrappings["rsyslog"](rsyslog.Replace(line)) }}
	maps.Copy(wraps, wrappings)
	for name, wrap := range wraps {
		var wrapped strings.Builder
		for line := range strings.Lines(log.String()) {
			wrapped.WriteString(wrap(strings.TrimSuffix(line, "\n")) + "\n")
		}
		entries, s := readText(t, wrapped.String())
		assert.FatalIf(t, len(entries) != 2 || s.Total().Other != 1 || s.Total().Malformed != 1, "%s: %d entries, %+v", name, len(entries), s.Skipped)
		for _, e := range entries {
			assert.ErrorIf(t, e.Client != "1.1.1.1" || e.Time != second+500_000 || e.Ends != second+1_000_000, "%s: %+v", name, e)
		}
	}
}
