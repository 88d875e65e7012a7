package config

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestUnwritten_warning loads limits by headers of a login, which stand before it, behind it or without one.
func TestUnwritten_warning(t *testing.T) {
	t.Parallel()
	const (
		limit = "redis_ratelimit {header.remote-user} 10 1m\n"
		own   = "redis_ratelimit {header.X-My-User} 10 1m\n"
		plan  = "redis_ratelimit {\nlimit {header.X-My-User} 10\nwindow 1m\n}\n"
		login = "forward_auth 127.0.0.1:1 {\nuri /\ncopy_headers Remote-User X-Name>X-My-User\n}\n"
		named = "&(login) {\n" + login + "}\n"
	)
	n := caddytest.Start(t, caddytest.Config("", "respond ok"))
	warnings := func() []caddytest.LogLine {
		return n.Log.Lines(func(l caddytest.LogLine) bool {
			return l.Level == "warn" && strings.HasPrefix(l.Message, "a limit goes by a header ")
		})
	}
	for _, test := range []struct {
		name, site string
		want       []string // of each warning
	}{
		{"before the login", limit + login, []string{"put both into a route"}},
		{"a header of its own", own + login, []string{"put both into a route"}},
		{"a limit by it", plan + login, []string{"put both into a route"}},
		{"at two paths", "handle /a/* {\n" + limit + "}\nhandle {\n" + limit + "}", []string{"path /a/*", "unless a proxy"}},
		{"a login inside", limit + "handle /a/* {\n" + login + "}", []string{"put both into a route"}},
		{"a login for others", "handle /a/* {\n" + limit + "}\nhandle {\n" + login + "}", []string{"unless a proxy"}},
		{"without a login", limit, []string{"unless a proxy"}},
		{"without a login, by an unknown header", own, nil},
		{"behind the login", "route {\n" + login + limit + own + "}", nil},
		{"before the login, in a route", "route {\n" + limit + login + "}", []string{"put both into a route"}},
		{"inside, behind the login", login + "handle {\n" + limit + "}", nil},
		{"by request_header", "route {\nrequest_header Remote-User {http.auth.user.id}\n" + limit + "}", nil},
		{"cleared", "route {\nrequest_header -Remote-*\n" + limit + "}", nil},
		{"behind a named route", "route {\ninvoke login\n" + limit + "}", nil},
	} {
		before := len(warnings())
		text := caddytest.Config("", test.site)
		if strings.Contains(test.site, "invoke") {
			text += named
		}
		n.Reload(t, text)
		lines := warnings()[before:]
		if len(lines) != len(test.want) {
			t.Errorf("%s: the log has %v; want %d warnings", test.name, lines, len(test.want))
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(lines[i].Text, want) {
				t.Errorf("%s: the log has %v; want %q in it", test.name, lines[i], want)
			}
		}
	}
}
