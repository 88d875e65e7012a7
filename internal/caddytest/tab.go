package caddytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Tab is a tab of a Chromium that a test drives.
type Tab struct {
	conn *websocket.Conn
	last int // the number of the last question
}

// OpenTab opens a Chromium with scripts and cookies for the time of a test, or skips the test.
func OpenTab(t testing.TB) *Tab {
	t.Helper()
	profile := Browser{Kind: Chromium, Scripts: true, Cookies: true}.Open(t, "about:blank")
	var targets []struct{ Type, WebSocketDebuggerURL string }
	assert.WaitFor(t, "the browser has a page", func() error {
		text, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		if err != nil {
			return err
		}
		port, _, _ := strings.Cut(string(text), "\n")
		response, err := http.DefaultClient.Do(GetRequest(t.Context(), t, "http://127.0.0.1:"+port+"/json/list"))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&targets); err != nil {
			return err
		}
		for _, target := range targets {
			if target.Type == "page" {
				targets[0] = target
				return nil
			}
		}
		return fmt.Errorf("it has %v", targets)
	})
	conn, err := websocket.Dial(targets[0].WebSocketDebuggerURL, "", "http://127.0.0.1")
	assert.Must(t, err)
	conn.MaxPayloadBytes = 64 << 20
	t.Cleanup(func() { _ = conn.Close() }) // the test is over
	return &Tab{conn: conn}
}

// Ask has the browser answer a question of the Chrome DevTools Protocol.
func (b *Tab) Ask(t testing.TB, method string, params map[string]any, result any) {
	t.Helper()
	failed := b.try(t, method, params, result)
	assert.FatalIf(t, failed != "", "%s: %s", method, failed)
}

// try asks as [Tab.Ask] does, and returns what failed.
func (b *Tab) try(t testing.TB, method string, params map[string]any, result any) (failed string) {
	t.Helper()
	b.last++
	assert.Must(t, websocket.JSON.Send(b.conn, map[string]any{"id": b.last, "method": method, "params": params}))
	for {
		var answer struct {
			ID     int
			Error  json.RawMessage
			Result json.RawMessage
		}
		assert.Must(t, websocket.JSON.Receive(b.conn, &answer))
		if answer.ID != b.last {
			continue // an event
		}
		if answer.Error != nil {
			return string(answer.Error)
		}
		assert.Must(t, json.Unmarshal(answer.Result, result))
		return ""
	}
}

// Open opens a URL, as a user types it.
func (b *Tab) Open(t testing.TB, url string) {
	t.Helper()
	b.Ask(t, "Page.navigate", map[string]any{"url": url}, &struct{}{})
}

// Eval returns what a script in the page yields as text, or "error: " and why it fails, as while another page is opened.
// It waits for a promise.
func (b *Tab) Eval(t testing.TB, expression string) string {
	t.Helper()
	var found struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	failed := b.try(t, "Runtime.evaluate", map[string]any{
		"expression": "Promise.resolve(" + expression + ").then(String)", "awaitPromise": true, "returnByValue": true,
	}, &found)
	if failed != "" {
		return "error: " + failed
	}
	if found.ExceptionDetails != nil {
		return "error: " + string(found.ExceptionDetails)
	}
	return fmt.Sprint(found.Result.Value)
}

// WaitForText waits until an element, named by a CSS selector, has all the texts.
func (b *Tab) WaitForText(t testing.TB, selector string, texts ...string) {
	t.Helper()
	assert.Retry(t, "the page shows "+strings.Join(texts, ", "), func() (again bool, seen any) {
		text := b.Eval(t, fmt.Sprintf("document.querySelector(%q)?.textContent", selector))
		for _, part := range texts {
			again = again || !strings.Contains(text, part)
		}
		return again, text
	})
}

// WaitForValue waits until a script in the page yields a text.
func (b *Tab) WaitForValue(t testing.TB, expression, want string) {
	t.Helper()
	assert.Retry(t, expression+" is "+want, func() (again bool, seen any) {
		text := b.Eval(t, expression)
		return text != want, text
	})
}
