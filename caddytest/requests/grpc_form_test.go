package requests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// retryOn returns a service configuration whose backoff is far below any wait of these tests.
func retryOn(code string) string {
	return `{"methodConfig": [{"name": [{}], "waitForReady": true, "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.01s",
		"maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["` + code + `"]}}]}`
}

// denied returns how many attempts were denied.
func (n *versionsNode) denied(t *testing.T) (sum float64) {
	t.Helper()
	for _, source := range []string{"memory", "redis", "deny_cache"} {
		sum += n.Metric(t, `decisions_total{decision="denied",policy="calls",source="`+source+`"}`)
	}
	return sum
}

// TestGRPC_pushback has a client wait for as long as it is told to. Its next attempt passes. With its own
// backoff all its attempts would be denied.
func TestGRPC_pushback(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		service := startGRPCService(t)
		n := startVersions(t, option, "redis_ratelimit {header.X-Key} 1 1s {\nname calls\nalgorithm gcra\n}\nreverse_proxy h2c://"+service.addr)
		for _, kind := range []string{"unary", "server_stream", "bidirectional"} {
			client, before := n.dial(t, "h2c", retryOn("RESOURCE_EXHAUSTED")), n.denied(t)
			for n.denied(t) == before { // until a call comes within a second of the one before
				if err := grpcCalls[kind](withKey(t, kind), client); err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
			}
			attempts := n.denied(t) - before
			assert.ErrorIf(t, attempts != 1, "%s: %v attempts were denied, want 1: the next one came too early", kind, attempts)
		}
	})
}

// TestGRPC_noRetry has clients give up at once: where the wait is too long, and where their policy is for
// other codes, for which they ignore the pushback. Without gRPC's form they repeat the call in vain.
func TestGRPC_noRetry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		window, options, retried string
		code                     codes.Code
		attempts                 float64
	}{
		"too_long":   {"1h", "", "RESOURCE_EXHAUSTED", codes.ResourceExhausted, 1},
		"never":      {"50s", "weight {header.X-Weight} 1", "RESOURCE_EXHAUSTED", codes.ResourceExhausted, 1},
		"other_code": {"50s", "", "UNAVAILABLE", codes.ResourceExhausted, 1},
		"off":        {"50s", "answer text", "UNAVAILABLE", codes.Unavailable, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := startGRPCService(t)
			n := startVersions(t, "", "redis_ratelimit {header.X-Key} 1 "+test.window+" {\nname calls\nalgorithm gcra\n"+test.options+"\n}\nreverse_proxy h2c://"+service.addr)
			client := n.dial(t, "h2c", retryOn(test.retried))
			assert.Must(t, grpcCalls["unary"](withKey(t, name), client))
			err := grpcCalls["unary"](metadata.AppendToOutgoingContext(withKey(t, name), "x-weight", "2"), client)
			attempts := n.denied(t)
			assert.ErrorIf(t, status.Code(err) != test.code || attempts != test.attempts || service.calls.Load() != 1, "got %v after %v attempts, want %v after %v", err, attempts, test.code, test.attempts)
		})
	}
}

// callingPage makes two gRPC-Web calls to another origin and shows what its script may read of the responses.
const callingPage = `<!doctype html><title>calls</title><pre id="seen"></pre><script>
const names = ["content-type", "grpc-status", "grpc-message", "grpc-retry-pushback-ms", "retry-after", "x-ratelimit-remaining"];
async function call() {
	const headers = {"Content-Type": "application/grpc-web+proto", "X-Grpc-Web": "1"};
	const response = await fetch("%s/grpc.testing.TestService/EmptyCall", {method: "POST", headers, body: new Uint8Array(5)});
	const size = (await response.arrayBuffer()).byteLength;
	return {status: response.status, size, header: names.map(name => response.headers.get(name) ?? "none")};
}
(async () => {
	const seen = [];
	try { seen.push(await call(), await call()); } catch (e) { seen.push({header: [String(e)]}); }
	document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>`

// seenCall is what a page reads of a response.
type seenCall struct {
	Status, Size int
	Header       []string
}

// TestGRPC_browser has a page of another origin make gRPC-Web calls, of which the second is denied.
func TestGRPC_browser(t *testing.T) {
	t.Parallel()
	browser := caddytest.Chromium.Find(t)
	backend := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		const trailers = "grpc-status: 0\r\n"
		fmt.Fprintf(w, "\x00\x00\x00\x00\x00\x80\x00\x00\x00%c%s", len(trailers), trailers)
	})
	seconds := regexp.MustCompile(`31[45]\d{5}|31536000`)
	for options, want := range map[string]seenCall{
		"": {200, 0, []string{"application/grpc-web+proto", "8", "rate limit exceeded: policy calls, retry in WAIT s", "-1", "2147483", "0"}},
		"answer text": {429, len("Too many requests. Try again in 365 days."),
			[]string{"text/plain; charset=utf-8", "none", "none", "none", "2147483", "0"}},
	} {
		n := caddytest.Start(t, caddytest.Config("", `@preflight method OPTIONS
			@calls not method OPTIONS
			header Access-Control-Allow-Origin *
			header @preflight Access-Control-Allow-Headers "Content-Type, X-Grpc-Web"
			redis_ratelimit @calls {client_ip} 1 365d { name calls; algorithm gcra; `+options+` }
			respond @preflight 204
			reverse_proxy `+backend))
		page := caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, fmt.Sprintf(callingPage, n.URL)) // the browser shows what has come
		})
		calls := shownCalls(t, browser, "http://"+page)
		assert.FatalIf(t, len(calls) != 2 || calls[0].Status != http.StatusOK || calls[0].Size != 26 || calls[0].Header[1] != "none", "%q: the page has seen %+v", options, calls)
		for i, text := range calls[1].Header {
			calls[1].Header[i] = seconds.ReplaceAllString(text, "WAIT") // a year, less what has passed since the first call
		}
		got := calls[1]
		assert.ErrorIf(t, got.Status != want.Status || got.Size != want.Size || !slices.Equal(got.Header, want.Header), "%q: the page has seen %+v, want %+v", options, got, want)
	}
}

// shownCalls opens a page in a headless browser and returns what it shows. Nothing leaves the machine.
func shownCalls(t *testing.T, browser, url string) (calls []seenCall) {
	t.Helper()
	command := exec.CommandContext(t.Context(), browser,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--user-data-dir="+t.TempDir(), "--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=127.0.0.1",
		"--virtual-time-budget=10000", "--dump-dom", url)
	var document, messages bytes.Buffer
	command.Stdout, command.Stderr = &document, &messages
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, messages.String())
	}
	shown := regexp.MustCompile(`<pre id="seen">(.*)</pre>`).FindStringSubmatch(document.String())
	assert.FatalIf(t, shown == nil, "the page is %s", document.String())
	if err := json.Unmarshal([]byte(html.UnescapeString(shown[1])), &calls); err != nil {
		t.Fatalf("%v: %s", err, shown[1])
	}
	return calls
}

// TestGRPC_trailersOnly reads the frames of a denial: one HEADERS with END_STREAM.
func TestGRPC_trailersOnly(t *testing.T) {
	t.Parallel()
	n := startVersions(t, "", "encode gzip\n"+fmt.Sprintf(grpcLimit, "")+"respond ok")
	for sent, want := range map[string]string{"application/grpc": "application/grpc", "Application/GRPC+Proto; a=b": "application/grpc+proto"} {
		for _, path := range []string{"/passes", "/denied"} {
			frame := firstHeaders(t, n.addresses["h2c"], path, sent)
			got := map[string]string{}
			for _, field := range frame.Fields {
				got[field.Name] += field.Value
			}
			switch {
			case path == "/passes" && got["grpc-status"] != "":
				t.Errorf("got %v", got)
			case path == "/denied" && (!frame.StreamEnded() || got[":status"] != "200" || got["content-type"] != want || got["grpc-status"] != "8" || got["content-encoding"] != ""):
				t.Errorf("got %v, END_STREAM %v; want trailers alone", got, frame.StreamEnded())
			}
		}
	}
}

// firstHeaders begins a call that streams, and returns the first headers of the response.
func firstHeaders(t *testing.T, addr, path, contentType string) *http2.MetaHeadersFrame {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	assert.Must(t, err)
	defer conn.Close() //nolint:errcheck // the call ends with it
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", http.MethodPost}, {":scheme", "http"}, {":authority", addr}, {":path", path},
		{"content-type", contentType}, {"te", "trailers"}, {"x-key", contentType}, {"accept-encoding", "gzip"},
	} {
		assert.Must(t, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = conn.Write([]byte(http2.ClientPreface))
	err = errors.Join(err, framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndHeaders: true}))
	if path == "/passes" {
		err = errors.Join(err, framer.WriteData(1, true, nil))
	}
	for err == nil {
		var frame http2.Frame
		if frame, err = framer.ReadFrame(); err == nil {
			if headers, ok := frame.(*http2.MetaHeadersFrame); ok {
				return headers
			}
		}
	}
	t.Fatal(err)
	return nil
}
