package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestTable_page has a row for each client of the list and no other, in its order. A verdict for which a client could blame
// the limiter has a note.
func TestTable_page(t *testing.T) {
	t.Parallel()
	_, rows, _, err := readTable("results.md")
	assert.Must(t, err)
	var listed, written []string
	for _, c := range list() {
		listed = append(listed, c.name)
	}
	for _, w := range rows {
		written = append(written, w.client)
		blame := w.verdict == returnsEarly || w.verdict == losesData || w.verdict == takesRefusals
		assert.ErrorIf(t, blame && w.note == "", "%s has no note: %s", w.client, w.verdict)
		again, err := parseRow(w.String())
		assert.Must(t, err)
		assert.Equal(t, again, w, "a row that is written and read")
	}
	assert.Equal(t, strings.Join(written, "\n"), strings.Join(listed, "\n"), "the clients of the table")
}

// accessLog has requests of a client at these moments, and what is in the log of each.
func accessLog(lines ...string) []byte {
	const line = `{"ts":%s,"duration":0.5,"status":%s,"request":{"method":"GET","uri":"%s"},"ratelimit_decision":"%s",` +
		`"resp_headers":{%s}}` + "\n"
	var log strings.Builder
	for _, words := range lines {
		w := strings.SplitN(words, " ", 5)
		fmt.Fprintf(&log, line, w[0], w[1], w[2], w[3], w[4])
	}
	return []byte(log.String())
}

func TestVisitOf(t *testing.T) {
	t.Parallel()
	const three = `"Retry-After":["3"],"Content-Type":["text/plain; charset=utf-8"]`
	for name, want := range map[string]struct {
		log           []byte
		sent, refused int
		back, told    float64
		early         bool
	}{
		"never back": {accessLog("1 200 /a allowed ", "2 429 /b denied "+three), 2, 1, math.NaN(), math.NaN(), false},
		"as told":    {accessLog("1 429 /a denied "+three, "4.5 200 /a allowed "), 2, 1, 3, 3, false},
		"early": {
			accessLog("1 429 /a denied "+three, "2.5 200 /b allowed ", "3 429 /a denied "+three, "6.5 200 /a allowed "),
			4, 2, 1.5, 3, true,
		},
		"other header": {accessLog(`1 429 /a denied "X-Amz-Retry-After":["2000"],`+three, "3.5 200 /a allowed "), 2, 1, 2, 2, false},
		"at once":      {accessLog("1 429 /a denied "+three, "1.1 429 /a denied "+three), 2, 2, math.NaN(), math.NaN(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, err := readLog(want.log)
			assert.Must(t, err)
			v := visitOf(requests)
			same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
			if v.sent != want.sent || v.refused != want.refused || !same(v.back, want.back) || !same(v.told, want.told) || v.early() != want.early {
				t.Errorf("got %+v, want %+v", v, want)
			}
			form := map[bool]string{false: "429 text/plain", true: "429 text/plain, X-Amz-Retry-After"}[name == "other header"]
			assert.Equal(t, v.forms[0], form, "the form")
		})
	}
}

func TestShowsReason(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]bool{
		"ERROR 429: Too Many Requests": true, "error (ERR_FETCH_429)": true, "api error SlowDown": true, "": false,
		"127.0.0.1:42937": false, "Fetched 429 B in 3s (429 B/s)": false, "could not find a version": false,
	} {
		assert.Equal(t, showsReason([]byte(output)), want, "%s", output)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	kept, early := visit{back: 3, told: 3}, visit{back: 1, told: 3}
	for want, cases := range map[string][]struct {
		outcome
		visit
	}{
		waits:         {{outcome{whole: true}, kept}, {outcome{whole: true, exit: 1}, kept}},
		failsLoudly:   {{outcome{exit: 1}, kept}},
		sleeps:        {{outcome{exit: -1, sleeps: true}, kept}},
		returnsEarly:  {{outcome{whole: true}, early}, {outcome{exit: 1}, early}},
		losesData:     {{outcome{}, kept}, {outcome{}, early}},
		takesRefusals: {{outcome{refusal: true}, kept}, {outcome{refusal: true, exit: 1}, early}},
	} {
		for _, c := range cases {
			assert.Equal(t, judge(c.outcome, c.visit), want, "%+v, %+v", c.outcome, c.visit)
		}
	}
}

func TestRow_worse(t *testing.T) {
	t.Parallel()
	before := row{verdict: failsLoudly, data: "2 of 4 calls", reason: "yes", requests: "3, 1"}
	whole := row{verdict: returnsEarly, data: whole, reason: "yes", requests: "3, 1"}
	for want, w := range map[string][2]row{
		"":                                    {before, before},
		"returns early, before: fails loudly": {{verdict: returnsEarly, reason: "yes"}, before},
		"2 of 4 calls, before: all":           {{verdict: returnsEarly, data: "2 of 4 calls", reason: "yes"}, whole},
		"shows no reason any more":            {{verdict: failsLoudly, reason: "no"}, before},
		"8 requests refused, before: 1":       {{verdict: failsLoudly, reason: "yes", requests: "10, 8"}, before},
	} {
		assert.Equal(t, w[0].worse(w[1]), want, "what is worse")
	}
}
