package livepage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestPage_firefox shows the sample in Firefox, by WebDriver BiDi: scripts run, and each section has its text.
func TestPage_firefox(t *testing.T) {
	t.Parallel()
	profile := caddytest.Browser{Kind: caddytest.Firefox, Scripts: true, Cookies: true}.Open(t, "about:blank")
	var conn *websocket.Conn
	assert.WaitFor(t, "Firefox can be asked", func() error {
		text, err := os.ReadFile(filepath.Join(profile, "WebDriverBiDiServer.json"))
		if err != nil {
			return err
		}
		var server struct {
			Port int `json:"ws_port"`
		}
		if err := json.Unmarshal(text, &server); err != nil {
			return err
		}
		conn, err = websocket.Dial(fmt.Sprintf("ws://127.0.0.1:%d/session", server.Port), "", "http://127.0.0.1")
		return err
	})
	t.Cleanup(func() { _ = conn.Close() }) // the test is over
	last := 0
	ask := func(method string, params map[string]any) (result json.RawMessage) {
		last++
		assert.Must(t, websocket.JSON.Send(conn, map[string]any{"id": last, "method": method, "params": params}))
		for {
			var answer struct {
				ID      int
				Message string // of an error
				Result  json.RawMessage
			}
			assert.Must(t, websocket.JSON.Receive(conn, &answer))
			if answer.ID == last {
				assert.FatalIf(t, answer.Result == nil, "%s: %s", method, answer.Message)
				return answer.Result
			}
		}
	}
	ask("session.new", map[string]any{"capabilities": map[string]any{}})
	var tree struct{ Contexts []struct{ Context string } }
	assert.Must(t, json.Unmarshal(ask("browsingContext.getTree", map[string]any{}), &tree))
	d := sample(t)
	ask("browsingContext.navigate", map[string]any{"context": tree.Contexts[0].Context, "url": serveSample(t, func() *Document { return d })})
	assert.Retry(t, "Firefox shows what the pictures show", func() (again bool, seen any) {
		var found struct{ Result struct{ Value string } }
		assert.Must(t, json.Unmarshal(ask("script.evaluate", map[string]any{
			"expression": "document.querySelector('main')?.textContent", "target": map[string]string{"context": tree.Contexts[0].Context}, "awaitPromise": false,
		}), &found))
		for _, part := range []string{
			"Redis decides since 2026-11-21 09:48:00 UTC.", "120,214  1,504", "! never met", "26198.51.100.66loginbanned, 14 min 48 s",
			"limit 3,000203.0.113.7apifor 2 h; import of June", "redis cannot decide",
		} {
			again = again || !strings.Contains(found.Result.Value, part)
		}
		return again, found.Result.Value
	})
}
