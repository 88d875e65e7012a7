package admin

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func freePort(t *testing.T) string {
	t.Helper()
	return strings.TrimPrefix(redistest.FreeAddr(t), "127.0.0.1:")
}

// unnamedWarnings returns the lines about handlers that share the policy default.
func unnamedWarnings(n *caddytest.Node) []caddytest.LogLine {
	return n.Log.Lines(func(l caddytest.LogLine) bool {
		return l.Logger == "redis_ratelimit" && l.Level == "warn" && strings.HasPrefix(l.Message, "handlers without a name share the policy default")
	})
}

// TestUnnamed_warning loads handlers that share the policy default by accident, and such as do not.
func TestUnnamed_warning(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "respond ok"))
	port, second := freePort(t), freePort(t)
	const (
		unnamed = "redis_ratelimit /a/* {client_ip} 10 1m\nredis_ratelimit /b/* {client_ip} 10 1m\n"
		one     = "redis_ratelimit {client_ip} 10 1m\nrespond ok"
	)
	for _, test := range []struct {
		name, site, rest string
		handlers         int
		places           []string
	}{
		{"two paths", unnamed + "respond ok", "", 2, []string{" path /a/*; ", " path /b/*"}},
		{"in error routes, subroutes and responses", one + "\nroute /s {\nredis_ratelimit /s/* {client_ip} 10 1m\n}\nreverse_proxy /p 127.0.0.1:1 {\nhandle_response {\nredis_ratelimit {client_ip} 10 1m\n}\n}\nintercept {\nhandle_response {\nredis_ratelimit {client_ip} 10 1m\n}\n}\nhandle_errors {\nredis_ratelimit {client_ip} 10 1m\n}", "", 5,
			[]string{" all requests", " path /s path /s/*", " path /p responses", " responses; ", " errors"}},
		{"a block without a name", "redis_ratelimit /a {\nlimit 10\nwindow 1m\n}\nredis_ratelimit @get {client_ip} 10 1m\n@get {\nmethod GET HEAD\nheader X-Y *\n}", "", 2, []string{" path /a; ", " by header method GET,HEAD"}},
		{"two sites", one, "http://127.0.0.1:" + port + " {\n" + one + "\n}", 2, []string{":" + port + ") host 127.0.0.1"}},
		{"a site of many names", one, "http://a.test:" + port + ", http://b.test:" + port + ", http://c.test:" + port + ", http://d.test:" + port + ", http://e.test:" + port + " {\n" + one + "\n}", 2, []string{",c.test and 2 more"}},
		{"one handler", one, "", 0, nil},
		{"names", "redis_ratelimit /a {client_ip} 10 1m {\nname a\n}\nredis_ratelimit /b {client_ip} 10 1m {\nname b\n}", "", 0, nil},
		{"one of them named", "redis_ratelimit /a {client_ip} 10 1m {\nname a\n}\n" + one, "", 0, nil},
		{"the name default on purpose", strings.ReplaceAll(unnamed, "1m\n", "1m {\nname default\n}\n"), "", 0, nil},
		{"one site on two ports", "respond ok", "http://localhost:" + port + ", http://localhost:" + second + " {\n" + one + "\n}", 0, nil},
		{"a named route that two sites invoke", "invoke /a limited\ninvoke /b limited", "", 0, nil},
	} {
		text := caddytest.Config("", test.site)
		if test.rest != "" {
			text += "\n" + test.rest + "\n"
		}
		if strings.Contains(test.site, "invoke") {
			text += "\n&(limited) {\nredis_ratelimit {client_ip} 10 1m\n}\n"
		}
		before := len(unnamedWarnings(n))
		n.Reload(t, text)
		lines := unnamedWarnings(n)[before:]
		if test.handlers == 0 {
			if len(lines) > 0 {
				t.Errorf("%s: the log has %v; want no warning", test.name, lines)
			}
			continue
		}
		if len(lines) != 1 || !strings.Contains(lines[0].Text, `"handlers":`+strconv.Itoa(test.handlers)) {
			t.Errorf("%s: the log has %v; want one warning of %d handlers", test.name, lines, test.handlers)
			continue
		}
		for _, place := range test.places {
			if !strings.Contains(lines[0].Text, place) {
				t.Errorf("%s: %s\nhas no %q", test.name, lines[0].Text, place)
			}
		}
	}
}

// TestPolicies_handlers lists who uses a policy, by HTTP and by the command.
func TestPolicies_handlers(t *testing.T) {
	t.Parallel()
	site := "redis_ratelimit {\npolicy login {\nmatch {\npath /login\n}\nlimit 3\nwindow 1m\n}\npolicy all {\nlimit 30\nwindow 1m\n}\n}\n"
	for i := range 12 {
		site += "redis_ratelimit /" + strconv.Itoa(i) + " {client_ip} 30 1m {\nname all\n}\n"
	}
	n := caddytest.Start(t, caddytest.Config("", site+"respond ok"))
	report := caddytest.ParseJSON[struct {
		Policies []struct {
			Name     string
			Handlers []string
		}
	}](t, n.Ask(t, "GET", "policies", ""))
	if len(report.Policies) != 2 || len(report.Policies[0].Handlers) != 13 || len(report.Policies[1].Handlers) != 1 || !strings.HasSuffix(report.Policies[1].Handlers[0], ") all requests, match path /login") {
		t.Errorf("got %+v", report)
	}
	n.Ratelimit(t, "policies").Want(t, 0, "USED BY", ") path /3", "and 3 more; --json lists all", "login   srv0 (")
}
