package requests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

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
	browser := caddytest.Chromium(t)
	backend := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		const trailers = "grpc-status: 0\r\n"
		fmt.Fprintf(w, "\x00\x00\x00\x00\x00\x80\x00\x00\x00%c%s", len(trailers), trailers)
	})
	seconds := regexp.MustCompile(`31[45]\d{5}|31536000`)
	for options, want := range map[string]seenCall{
		"":         {200, 0, []string{"application/grpc-web+proto", "8", "rate limit exceeded: policy calls, retry in WAIT s", "-1", "WAIT", "0"}},
		"grpc off": {429, 0, []string{"none", "none", "none", "none", "WAIT", "0"}},
	} {
		n := caddytest.Start(t, caddytest.Config("", `@preflight method OPTIONS
			@calls not method OPTIONS
			header Access-Control-Allow-Origin *
			header @preflight Access-Control-Allow-Headers "Content-Type, X-Grpc-Web"
			redis_ratelimit @calls {client_ip} 1 365d {
				name calls
				algorithm gcra
				`+options+`
			}
			respond @preflight 204
			reverse_proxy `+backend))
		page := caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, fmt.Sprintf(callingPage, n.URL)) // the browser shows what has come
		})
		calls := shownCalls(t, browser, "http://"+page)
		if len(calls) != 2 || calls[0].Status != http.StatusOK || calls[0].Size != 26 || calls[0].Header[1] != "none" {
			t.Fatalf("%q: the page has seen %+v", options, calls)
		}
		for i, text := range calls[1].Header {
			calls[1].Header[i] = seconds.ReplaceAllString(text, "WAIT") // a year, less what has passed since the first call
		}
		if got := calls[1]; got.Status != want.Status || got.Size != 0 || !slices.Equal(got.Header, want.Header) {
			t.Errorf("%q: the page has seen %+v, want %+v", options, got, want)
		}
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
	if shown == nil {
		t.Fatalf("the page is %s", document.String())
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(shown[1])), &calls); err != nil {
		t.Fatalf("%v: %s", err, shown[1])
	}
	return calls
}
