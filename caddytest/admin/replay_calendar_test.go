package admin

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestReplay_calendar plays a log through days of Santiago: the clock is the log's, and the day without a
// first hour begins at one o'clock.
func TestReplay_calendar(t *testing.T) {
	t.Parallel()
	const caddyfile = ":80 {\n\tredis_ratelimit {\n\t\tlimit 1\n\t\twindow day America/Santiago\n\t}\n\treverse_proxy 127.0.0.1:1\n}\n"
	var log bytes.Buffer
	for _, at := range []string{"2026-09-06T03:59:57Z", "2026-09-06T03:59:59Z", "2026-09-06T04:00:00Z", "2026-09-07T02:59:59Z", "2026-09-07T03:00:00Z"} {
		instant, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&log, "192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 10\n", instant.Format("02/Jan/2006:15:04:05 -0700"))
	}
	if result := playedJSON(t, caddyfile, log.Bytes()); result.Requests != 5 || result.Denied != 2 {
		t.Errorf("%d of %d denied, want 2 of 5", result.Denied, result.Requests)
	}
	output, complaints, code := replays(t, caddyfile, log.Bytes(), "--suggest")
	if code != 0 || !strings.Contains(output, "1 per day (America/Santiago)") || !strings.Contains(output, "other limits per day (America/Santiago)") {
		t.Errorf("exit code %d: %s%s", code, output, complaints)
	}
}
