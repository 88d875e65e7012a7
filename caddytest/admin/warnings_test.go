package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

const (
	ofConnection = "each connection has a quota of its own" // one directive shows it
	isNeverMet   = "no request comes to this limit"         // all routes show it
	mistakes     = "redis_ratelimit {remote} 10 1m {\nname port\n}\nroute {\nrespond hello\nredis_ratelimit {client_ip} 10 1m {\nname late\n}\n}"
)

// countWarnings returns how many lines of a log are warnings with a text.
func countWarnings(log, text string) (n int) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"level":"warn"`) && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestWarnings_when has a mistake that one directive shows and one that all routes show. Each command logs each that it
// can see, once.
func TestWarnings_when(t *testing.T) {
	t.Parallel()
	file := caddytest.WriteCaddyfile(t, "http://127.0.0.1:8080 {\n"+mistakes+"\n}\n")
	json := filepath.Join(t.TempDir(), "caddy.json")
	adapted := caddytest.Run{}.Caddy(t, "adapt", "--config", file)
	assert.Must(t, os.WriteFile(json, []byte(adapted.Stdout), 0o600))
	broken := caddytest.WriteCaddyfile(t, "http://127.0.0.1:8080 {\n"+mistakes+"\n}\nhttps://127.0.0.1:8443 {\ntls /missing.pem /missing.pem\n}\n")
	for _, test := range []struct {
		name              string
		args              []string
		shown, met, place int // warnings of each, and of the Caddyfile's line
	}{
		{"adapt", []string{"adapt", "--config", file}, 1, 0, 1},
		{"adapt and validate", []string{"adapt", "--validate", "--config", file}, 1, 1, 1},
		{"validate", []string{"validate", "--config", file}, 1, 1, 1},
		{"validate JSON", []string{"validate", "--config", json}, 1, 1, 0},
		{"validate what cannot be set up", []string{"validate", "--config", broken}, 1, 0, 1},
		{"replay", []string{"redis-ratelimit", "replay", "--config", file, "/dev/null"}, 0, 0, 0},
	} {
		log := caddytest.Run{}.Caddy(t, test.args...).Stderr
		shown, met, place := countWarnings(log, ofConnection), countWarnings(log, isNeverMet), countWarnings(log, `Caddyfile:2"`)
		assert.ErrorIf(t, shown != test.shown || met != test.met || place != test.place, "%s: %d, %d and %d warnings in %s", test.name, shown, met, place, log)
	}
}

// TestWarnings_start loads mistakes by a Caddyfile and by JSON, and what is right. A warning stops no load.
func TestWarnings_start(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", mistakes))
	want := func(when string, shown, met int) {
		t.Helper()
		log := n.Log.String()
		assert.ErrorIf(t, countWarnings(log, ofConnection) != shown || countWarnings(log, isNeverMet) != met, "%s: want %d and %d warnings in %s", when, shown, met, log)
	}
	want("at the start", 1, 1)
	n.Reload(t, caddytest.Config("", "redis_ratelimit {client_ip} 10 1m\nrespond ok"))
	want("behind a reload without mistakes", 1, 1)
	n.Reload(t, caddytest.Config("", mistakes))
	want("behind a reload with both", 2, 2)
	config := n.Send(t, "GET", n.Admin+"/config/", "").Body
	n.Send(t, "POST", n.Admin+"/load", config, "Content-Type: application/json", "Cache-Control: must-revalidate").Want(t, 200, caddytest.Any)
	want("behind JSON", 3, 3)
}

// TestWarnings_check lists all warnings, exits with 1 for them, and logs nothing besides.
func TestWarnings_check(t *testing.T) {
	t.Parallel()
	check := func(text string, flags ...string) caddytest.Ending {
		t.Helper()
		return caddytest.RunRatelimit(t, nil, append([]string{"check", "--config", caddytest.WriteCaddyfile(t, text)}, flags...)...)
	}
	site := "http://127.0.0.1:8080 {\nlog {\noutput file /missing/access.log\n}\n" + mistakes + "\n}\n"
	e := check(site)
	e.Want(t, 1, "redis          ok", "configuration  warning", `Caddyfile:5: policy "port": `, isNeverMet, "-> write {client_ip}", "-> put the limit in front")
	assert.ErrorIf(t, strings.Count(e.Stdout, ofConnection) != 1 || strings.Contains(e.Stderr, "warn") || strings.Contains(e.Stderr, "{"), "got %v", e)
	check(site, "--json").Want(t, 1, `"check": "configuration"`, `"result": "warning"`, `"advice": "write {client_ip}`)
	check("http://127.0.0.1:8080 {\nredis_ratelimit {client_ip} 10 1m\n}\n").Want(t, 0, "redis  ok")
	broken := check("https://127.0.0.1:8443 {\ntls /missing.pem /missing.pem\nredis_ratelimit {client_ip} 10 1m\n}\n")
	broken.Want(t, 1, "cannot be set up", "-> fix what 'caddy validate' reports")
}
