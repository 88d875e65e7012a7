package answer

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
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
		assert.Equal(t, grpcTypeOf(asked), want, "%q", asked)
	}
	const one = "application/grpc"
	for name, values := range map[string][]string{
		"none": nil, "two": {one, one}, "two kinds": {"text/html", one}, "endless": {one + "+" + strings.Repeat("a", maxTypeLen)},
	} {
		assert.Equal(t, grpcTypeOf(values...), "", "%s", name)
	}
	longest := one + "+" + strings.Repeat("a", maxTypeLen-len(one)-1)
	got := grpcTypeOf(longest)
	assert.ErrorIf(t, got != longest, "got %q for the longest type", got)
}

// FuzzGRPCType answers no content type with anything but the harmless beginning of it.
func FuzzGRPCType(f *testing.F) {
	for asked := range grpcTypes {
		f.Add(asked)
	}
	f.Fuzz(func(t *testing.T, asked string) {
		got := grpcTypeOf(asked)
		if len(got) > len(asked) || !strings.EqualFold(got, asked[:len(got)]) || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789/+-._") != "" {
			t.Errorf("%q is answered with %q", asked, got)
		}
	})
}

// grpcTypeOf returns the content type that answers a request; empty if it is not gRPC's.
func grpcTypeOf(contentTypes ...string) string {
	contentType := only(contentTypes)
	if kind := mediaType(contentType); isGRPC(contentType, kind) {
		return kind
	}
	return ""
}

// TestGRPC_pushback has waits of each kind.
func TestGRPC_pushback(t *testing.T) {
	q := request(t, "POST /", "Content-Type: application/grpc+proto")
	checks := refusals(t)["limited"].Checks[:1]
	for name, test := range map[string]struct {
		wait            time.Duration
		message, pushed string
	}{
		"soon":     {1, "retry in 1 s", "1"},
		"rounded":  {2000*time.Millisecond + 1, "retry in 3 s", "2001"},
		"longest":  {time.Minute, "retry in 60 s", "60000"},
		"too long": {time.Minute + 1, "retry in 61 s", "-1"},
		"never":    {limiter.Never, "policy api", "-1"},
	} {
		w := httptest.NewRecorder()
		grpc.Write(w, q, Refusal{Cause: Limited, Status: http.StatusTooManyRequests, Wait: SetRefusal(http.Header{}, nil, test.wait, 0, nil), Checks: checks}, nil)
		header := w.Header()
		assert.ErrorIf(t, w.Code != http.StatusOK || w.Body.Len() > 0 || header.Get(grpcStatus) != "8", "%s: got %v", name, w)
		assert.ErrorIf(t, !strings.HasSuffix(header.Get(grpcMessage), test.message), "%s: the message is %q", name, header.Get(grpcMessage))
		assert.Equal(t, header.Get(grpcPushback), test.pushed, "%s: the pushback", name)
	}
}

func TestGRPC_exposed(t *testing.T) {
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
		grpc.Write(w, request(t, "POST /", "Content-Type: application/grpc-web"), refusals(t)["unavailable"], nil)
		assert.Equal(t, w.Header().Get("Access-Control-Expose-Headers"), want, "%q", exposed)
	}
}

func FuzzPercentEncoded(f *testing.F) {
	for _, text := range []string{"", "retry in 5 s", "100 %", "Grüße\r\nX-Evil: 1", "\x00\x7f\xff~ "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		encoded := percentEncoded(text)
		for _, b := range []byte(encoded) {
			assert.ErrorIf(t, b < ' ' || b > '~', "%q is written %q", text, encoded)
		}
		decoded, err := url.PathUnescape(encoded)
		assert.ErrorIf(t, err != nil || decoded != text, "%q is read as %q, error %v", text, decoded, err)
	})
}
