package replay

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

func TestDecisions_policy(t *testing.T) {
	policies := []PolicyResult{{Name: "dry"}, {Name: "calm"}, {Name: "strict"}}
	dry := Decision{Policy: 0, DryRun: true, Denied: true, RetryAfter: time.Hour}
	calm, strict := Decision{Policy: 1}, Decision{Policy: 2, Denied: true, RetryAfter: time.Second}
	for _, tt := range []struct {
		name               string
		outcome            Outcome
		decisions          []Decision
		policy, retryAfter string
	}{
		{"denied", Denied, []Decision{dry, calm, strict}, "strict", "1.000000"},
		{"denied, in another order", Denied, []Decision{strict, calm, dry}, "strict", "1.000000"},
		{"denied for ever", Denied, []Decision{{Policy: 2, Denied: true, RetryAfter: -1}}, "strict", ""},
		{"allowed", Allowed, []Decision{dry, calm}, "calm", ""},
		{"allowed, alone", Allowed, []Decision{dry}, "dry", ""},
		{"nothing met", Unlimited, nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var text bytes.Buffer
			d := newDecisionWriter(&text, policies)
			d.write(&accesslog.Entry{}, &Verdict{Outcome: tt.outcome, Decisions: tt.decisions})
			redistest.Must(t, d.end())
			rows, err := csv.NewReader(&text).ReadAll()
			redistest.Must(t, err)
			row := rows[1]
			redistest.ErrorIf(t, row[7] != tt.policy || row[9] != tt.retryAfter, "policy %q, retry after %q", row[7], row[9])
		})
	}
}

func TestHarmless(t *testing.T) {
	for cell, want := range map[string]string{
		"": "", "/a=b": "/a=b", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@a": "'@a",
		"＝1": "'＝1", "＋1": "'＋1", "－1": "'－1", "＠a": "'＠a", "\t=1": `\x09=1`, "\r=1": `\x0d=1`, "\n=1": `\x0a=1`,
		"/a;=1": "/a;'=1", "=1;+1;a;@1": "'=1;'+1;a;'@1", "/a; \"=1": "/a;' \"=1", `/a;"=1`: `/a;'"=1`, "/a;b=1": "/a;b=1",
		` =1`: `' =1`, `"=1`: `'"=1`, "/a;\u00a0＝1": `/a;\u00a0＝1`, "/a;": "/a;", ";;-1": ";;'-1",
	} {
		got := harmless(cell)
		redistest.ErrorIf(t, got != want, "%q becomes %q, want %q", cell, got, want)
	}
}

// TestDecisions_NoFormula separates the cells of a hostile request by either separator, as spreadsheets do.
func TestDecisions_NoFormula(t *testing.T) {
	var text bytes.Buffer
	d := newDecisionWriter(&text, []PolicyResult{{Name: "p"}})
	for _, evil := range []string{"/a;=cmd()", "=cmd()", `/a;"=cmd()`, `/a",=cmd()`, "/a;\t=cmd()", "/a,b;=cmd()", "/a;\r\n=cmd()", `a";=cmd();"`} {
		d.write(&accesslog.Entry{Client: evil, Method: evil, Host: evil, URI: evil},
			&Verdict{Outcome: Denied, Decisions: []Decision{{Denied: true, Key: evil, RetryAfter: time.Second}}})
	}
	redistest.Must(t, d.end())
	for _, separator := range ",;" {
		r := csv.NewReader(strings.NewReader(text.String()))
		r.Comma, r.LazyQuotes, r.FieldsPerRecord = separator, true, -1
		rows, err := r.ReadAll()
		redistest.Must(t, err)
		for _, row := range rows {
			for _, cell := range row {
				redistest.ErrorIf(t, isFormula(cell), "separated by %c, a cell is %q", separator, cell)
			}
		}
	}
}
