package redisratelimit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// FuzzCaddyfile reads any text as the directive and as the global option. What is accepted must
// load, and what is refused must be told with its line.
func FuzzCaddyfile(f *testing.F) {
	paths, err := filepath.Glob("caddytest/config/adapt/*.caddyfiletest")
	redistest.FatalIf(f, err != nil || len(paths) == 0, "there are no golden files to begin with, error %v", err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		redistest.Must(f, err)
		input, _, _ := strings.Cut(string(text), "\n----------\n")
		if at := strings.Index(input, appName); at >= 0 { // the directive or option at its beginning
			f.Add(input[at:])
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := caddyfile.Tokenize([]byte(text), "Caddyfile")
		if err != nil || len(tokens) == 0 {
			return
		}
		option, err := parseGlobalOption(caddyfile.NewDispenser(tokens), nil)
		checkParsed(t, option, err)
		if app, ok := option.(httpcaddyfile.App); ok && err == nil {
			err := json.Unmarshal(app.Value, new(App))
			redistest.ErrorIf(t, err != nil, "the option cannot be loaded: %v", err)
		}
		handler, err := parseHandler(httpcaddyfile.Helper{Dispenser: caddyfile.NewDispenser(tokens), State: map[string]any{}})
		checkParsed(t, handler, err)
		if h, ok := handler.(*Handler); ok && err == nil {
			checkHandlerLoads(t, h)
		}
	})
}

func checkParsed(t *testing.T, value any, err error) {
	t.Helper()
	redistest.ErrorIf(t, err != nil && !strings.Contains(err.Error(), "Caddyfile:"), "the error names no line: %v", err)
	redistest.ErrorIf(t, err == nil && value == nil, "neither a value nor an error")
}

// checkHandlerLoads sends a handler through JSON, as Caddy does.
func checkHandlerLoads(t *testing.T, h *Handler) {
	t.Helper()
	text, err := json.Marshal(h)
	redistest.Must(t, err)
	loaded := new(Handler)
	if err := json.Unmarshal(text, loaded); err != nil {
		t.Fatalf("%s cannot be loaded: %v", text, err)
	}
	loaded.setDefaults()
	if err := errors.Join(loaded.checkPolicies(), loaded.Validate()); err != nil {
		t.Errorf("%s is refused when it is loaded: %v", text, err)
	}
}
