package quotaheader

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// grpcTypes are content types of requests, with those of their refusals; empty: no refusal of gRPC's.
var grpcTypes = map[string]string{
	"application/grpc":                      "application/grpc",
	"application/grpc+proto":                "application/grpc+proto",
	"Application/GRPC+JSON":                 "application/grpc+json",
	"application/grpc; charset=utf-8":       "application/grpc",
	"application/grpc+proto \t;a=\"<b>\"":   "application/grpc+proto",
	"application/grpc+vnd.acme.v1_x-y+json": "application/grpc+vnd.acme.v1_x-y+json",
	"application/grpc-web":                  "application/grpc-web",
	"application/grpc-web+proto":            "application/grpc-web+proto",
	"application/grpc-web-text":             "application/grpc-web-text",
	"application/grpc-web-text+proto":       "application/grpc-web-text+proto",

	"":                                        "",
	"application/json":                        "",
	"application/grp":                         "",
	"application/grpcx":                       "",
	"application/grpc+":                       "",
	"application/grpc-":                       "",
	"application/grpc-webb":                   "",
	"application/grpc-web-":                   "",
	"application/grpc-web-texts+proto":        "",
	"application/grpc-web+":                   "",
	"application/grpc/proto":                  "",
	"application/grpc proto":                  "",
	" application/grpc":                       "",
	"application/grpc, text/html":             "",
	"application/grpc,application/grpc+proto": "",
	"application/grpc+<script>":               "",
	"application/grpc+pro\r\nX-Evil: 1":       "",
	"application/grpc+pro\x00to":              "",
	"application/grpc+\u212aind":              "", // lower case makes it kind
	"application/\u0261rpc":                   "",
	"application/grpc; charset":               "",
	"application/grpc; a=b; a=c":              "",
	"application/grpc; \"":                    "",
	"text/html; application/grpc":             "",
}

func TestGRPCType(t *testing.T) {
	for asked, want := range grpcTypes {
		got := GRPCType(http.Header{"Content-Type": {asked}})
		redistest.ErrorIf(t, got != want, "%q: got %q, want %q", asked, got, want)
	}
	const one = "application/grpc"
	for name, values := range map[string][]string{
		"none": nil, "two": {one, one}, "two kinds": {"text/html", one}, "endless": {one + "+" + strings.Repeat("a", maxGRPCType)},
	} {
		got := GRPCType(http.Header{"Content-Type": values})
		redistest.ErrorIf(t, got != "", "%s: got %q, want none", name, got)
	}
	longest := one + "+" + strings.Repeat("a", maxGRPCType-len(one)-1)
	if got := GRPCType(http.Header{"Content-Type": {longest}}); got != longest {
		t.Errorf("got %q for the longest type", got)
	}
}

// FuzzGRPCType answers no content type with anything but the harmless beginning of it.
func FuzzGRPCType(f *testing.F) {
	for asked := range grpcTypes {
		f.Add(asked)
	}
	f.Fuzz(func(t *testing.T, asked string) {
		got := GRPCType(http.Header{"Content-Type": {asked}})
		if len(got) > len(asked) || !strings.EqualFold(got, asked[:len(got)]) || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789/+-._") != "" {
			t.Errorf("%q is answered with %q", asked, got)
		}
	})
}

func TestRefusedCall_Write(t *testing.T) {
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "api", Algorithm: limiter.GCRA, Limit: 1, Window: time.Hour})
	redistest.Must(t, err)
	check := &limiter.Check{Policy: policy}
	for name, test := range map[string]struct {
		refusal                 RefusedCall
		status, message, pushed string
	}{
		"soon":     {DeniedCall(check, 1), "8", "rate limit exceeded: policy api, retry in 1 s", "1"},
		"rounded":  {DeniedCall(check, 2000*time.Millisecond+1), "8", "rate limit exceeded: policy api, retry in 3 s", "2001"},
		"longest":  {DeniedCall(check, time.Minute), "8", "rate limit exceeded: policy api, retry in 60 s", "60000"},
		"too long": {DeniedCall(check, time.Minute+1), "8", "rate limit exceeded: policy api, retry in 61 s", "-1"},
		"never":    {DeniedCall(check, limiter.Never), "8", "rate limit exceeded: policy api", "-1"},
		"banned":   {BannedCall(check, 5*time.Second), "8", "banned for too many calls: policy api, retry in 5 s", "5000"},
		"closed":   {UndecidedCall(time.Second), "14", "rate limits are unavailable", "1000"},
		"key":      {CallRefusedBy(400), "3", "a value that rate limits count by is missing", "-1"},
		"early":    {CallRefusedBy(425), "14", "the handshake is not complete", ""},
		"crowded":  {CallRefusedBy(503), "14", "too many requests are held for rate limits", ""},
		"deadline": {CallRefusedBy(504), "4", "the deadline has passed", ""},
		"gone":     {CallRefusedBy(499), "1", "the client has left", ""},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set(grpcPushback, "7")
		test.refusal.Write(w, nil, "application/grpc+proto")
		got := w.Result()
		if got.StatusCode != http.StatusOK || w.Body.Len() > 0 || got.Header.Get("Content-Type") != "application/grpc+proto" || got.Header.Get("Access-Control-Expose-Headers") != "" {
			t.Errorf("%s: got %v", name, got)
		}
		for header, want := range map[string]string{GRPCStatus: test.status, grpcMessage: test.message, grpcPushback: test.pushed} {
			values := got.Header.Values(header)
			redistest.ErrorIf(t, strings.Join(values, "|") != want, "%s: %s is %q, want %q", name, header, values, want)
		}
	}
}

func TestRefusedCall_exposed(t *testing.T) {
	for exposed, want := range map[string]string{
		"":                     "Grpc-Status, Grpc-Message, Grpc-Retry-Pushback-Ms",
		"*":                    "*",
		"X-Other, grpc-status": "X-Other, grpc-status, Grpc-Message, Grpc-Retry-Pushback-Ms",
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if exposed != "" {
			w.Header().Set("Access-Control-Expose-Headers", exposed)
		}
		UndecidedCall(time.Second).Write(w, nil, "application/grpc-web")
		got := w.Header().Get("Access-Control-Expose-Headers")
		redistest.ErrorIf(t, got != want, "%q: got %q, want %q", exposed, got, want)
	}
}

func FuzzPercentEncoded(f *testing.F) {
	for _, text := range []string{"", "retry in 5 s", "100 %", "Grüße\r\nX-Evil: 1", "\x00\x7f\xff~ "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		encoded := percentEncoded(text)
		for _, b := range []byte(encoded) {
			redistest.ErrorIf(t, b < ' ' || b > '~', "%q is written %q", text, encoded)
		}
		decoded, err := url.PathUnescape(encoded)
		redistest.ErrorIf(t, err != nil || decoded != text, "%q is read as %q, error %v", text, decoded, err)
	})
}
