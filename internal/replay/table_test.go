package replay

import (
	"strings"
	"testing"
	"time"
)

func TestWriteTable_counts_one_in_the_singular(t *testing.T) {
	r := &Result{
		Requests: 1, Denied: 1, Clients: 1, ClientsDenied: 1, Unlimited: 1, Peak: Minute{Requests: 1},
		Policies: []PolicyResult{{Name: "p", Limit: 1, Window: time.Minute, Requests: 1, Clients: 1}},
	}
	text := tableOf(t, r)
	for _, plural := range []string{"1 requests", "1 clients", "1 keys"} {
		if strings.Contains(text, plural) {
			t.Errorf("%s in %s", plural, text)
		}
	}
}

func TestWriteTable_shows_the_settings_as_they_count(t *testing.T) {
	r := &Result{Policies: []PolicyResult{
		{Name: "dynamic", Algorithm: "gcra", Limit: 5, LimitFrom: "{http.request.header.X-Limit}", Burst: 7, BurstFrom: "{b}", Window: time.Minute},
		{Name: "queue", Algorithm: "leaky_bucket", Limit: 60, Burst: 20, MaxDelay: 5 * time.Second, Window: time.Minute, DryRun: true},
		{Name: "counts", Algorithm: "fixed_window", Limit: 1_000, CountIf: true, Charge: "response_bytes", Window: time.Hour},
	}}
	text := tableOf(t, r)
	for _, want := range []string{
		"policy dynamic: limit {http.request.header.X-Limit}, else 5, per 1m, gcra, burst {b}, else 7\n",
		"policy queue: 60 per 1m, leaky_bucket, burst 20, max_delay 5s, dry run\n",
		"policy counts: 1,000 per 1h, fixed_window, count_if, charge response_bytes\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestWriteTable_tells_once_what_was_not_read(t *testing.T) {
	r := &Result{Log: LogReport{
		Lines: 9, Malformed: 2, Late: 3, LatestBy: 4 * time.Second, First5: []BadLine{{"a.log:2", "cut off", "bad text"}},
		Files: []FileReport{{Name: "b.log.gz", Error: "unexpected end"}},
	}}
	text := tableOf(t, r)
	for _, want := range []string{"2 of 9 lines could not be read", "a.log:2: cut off: bad text", "played late: 3 (by up to 4s)", "b.log.gz: unexpected end"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q does not stand once in\n%s", want, text)
		}
	}
}

func TestSpan_does_not_round_to_nothing(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "once", time.Millisecond: "<1s", 499 * time.Millisecond: "<1s", 1200 * time.Millisecond: "1s", 90 * time.Minute: "1h30m"} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
