package admin

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestExplain_answeringHandlers has handlers that always respond, and others that may.
func TestExplain_answeringHandlers(t *testing.T) {
	t.Parallel()
	const after = "\nredis_ratelimit same 5 24h {\nname after\n}\nrespond after\n}\n"
	n := caddytest.Start(t, caddytest.Config("", "encode\ntracing\n"+
		"route /proxy {\nreverse_proxy 127.0.0.1:1"+after+
		"route /forward {\nforward_auth 127.0.0.1:1 {\nuri /\n}"+after+
		"route /files {\nfile_server"+after+
		"route /perhaps {\nfile_server {\npass_thru\n}"+after+
		"route /metrics {\nmetrics"+after+
		"route /handled {\nreverse_proxy 127.0.0.1:1 {\n@ok status 2xx\nhandle_response @ok {\nrespond ok\n}\n}"+after))
	for _, test := range []struct {
		path, decision string
		leftOut        string
	}{
		{"/proxy", "none", ""},
		{"/files", "none", ""},
		{"/metrics", "none", ""},
		{"/elsewhere", "none", ""},
		{"/perhaps", "allowed", "http.handlers.file_server"},
		{"/forward", "allowed", "http.handlers.reverse_proxy"},
		{"/handled", "allowed", "http.handlers.reverse_proxy"},
	} {
		a := n.Ask(t, "POST", "explain", `{"url":"`+n.URL+test.path+`","client_ip":"192.0.2.7"}`)
		e := caddytest.ParseJSON[struct {
			Decision string
			Skipped  []string
		}](t, a)
		if e.Decision != test.decision || strings.Join(e.Skipped, " ") != test.leftOut {
			t.Errorf("%s: got %v; want %s, and left out: %s", test.path, a, test.decision, test.leftOut)
		}
	}
	for _, path := range []string{"/proxy", "/files", "/metrics"} {
		if a := n.Get(t, path); a.Header.Get("X-Ratelimit-Limit") != "" {
			t.Errorf("%s: got %v; want no policy met", path, a)
		}
	}
}

// TestExplain_sameKeyTwice explains each request before it is sent. Its two handlers use one quota, and
// the first of them may be in dry run.
func TestExplain_sameKeyTwice(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		limits := func(path, more string) string {
			return "route " + path + " {\nredis_ratelimit {path} 5 24h {\nname twice\n" + more + "\n}\nredis_ratelimit {path} 5 24h {\nname twice\nweight 2\n}\nrespond ok\n}\n"
		}
		heavy := "route /heavy {\nredis_ratelimit {path} 5 24h {\nname twice\n}\nredis_ratelimit {path} 5 24h {\nname twice\nweight {query.weight} 1\n}\nrespond ok\n}\n"
		n := caddytest.Start(t, caddytest.Config(option, heavy+limits("/enforced", "")+limits("/pretended", "dry_run")))
		const most = "/heavy?weight=9223372036854775807"
		foretold := n.Explain(t, most, "")
		checkForetold(t, foretold, n.Get(t, most))
		for _, path := range []string{"/enforced", "/pretended"} {
			for range 2 { // the second is denied, by the second handler
				foretold := n.Explain(t, path, "")
				checkForetold(t, foretold, n.Get(t, path))
			}
		}
	})
}

// TestExplain_serverByAddress has several servers on one port.
func TestExplain_serverByAddress(t *testing.T) {
	t.Parallel()
	site := func(address, name string) string {
		return ":{$PORT} {\nbind " + address + "\nredis_ratelimit {http.request.local.host} 5 24h {\nname " + name + "\n}\nrespond ok\n}\n"
	}
	n := caddytest.Start(t, "{\nadmin {$ADMIN}\nauto_https off\n}\n"+site("127.0.0.1", "one")+site("127.0.0.2", "two"))
	for address, name := range map[string]string{"127.0.0.1": "one", "127.0.0.2": "two"} {
		url := strings.Replace(n.URL, "127.0.0.1", address, 1)
		a := n.Ask(t, "POST", "explain", `{"url":"`+url+`/","client_ip":"192.0.2.7"}`)
		if !strings.Contains(a.Body, `"policy":"`+name+`","key":"`+address+`"`) {
			t.Errorf("got %v; want the policy %s, with the address as the key", a, name)
		}
	}
	url := strings.Replace(n.URL, "127.0.0.1", "example.com", 1)
	if a := n.Ask(t, "POST", "explain", `{"url":"`+url+`/","client_ip":"192.0.2.7"}`); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "several servers") {
		t.Errorf("got %v; want to be asked for an address", a)
	}
}

// TestExplain_localAddress has a key with the local address: the one of the site, not of the admin
// endpoint.
func TestExplain_localAddress(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {http.request.local}|{http.request.local.port} 5 24h\nrespond ok"))
	address := strings.TrimPrefix(n.URL, "http://")
	want := `"key":"` + address + "|" + address[strings.LastIndex(address, ":")+1:] + `"`
	for _, url := range []string{n.URL + "/", "/", strings.Replace(n.URL, "127.0.0.1", "example.com", 1)} {
		if a := n.Ask(t, "POST", "explain", `{"url":"`+url+`","client_ip":"192.0.2.7"}`); !strings.Contains(a.Body, want) {
			t.Errorf("%s: got %v; want %s", url, a, want)
		}
	}
}

// TestExplain_onlySite has a URL that is a path alone. Its host is that of the only site.
func TestExplain_onlySite(t *testing.T) {
	t.Parallel()
	limited := func(host string) string {
		return "http://" + host + ":{$PORT} {\nredis_ratelimit {host} 5 24h\nrespond ok\n}\n"
	}
	global := "{\nadmin {$ADMIN}\nauto_https off\n}\nhttp://bare.test:{$PORT} {\nrespond ok\n}\n"
	one, two := caddytest.Start(t, global+limited("only.test")), caddytest.Start(t, global+limited("only.test")+limited("other.test"))
	for body, decides := range map[string]*caddytest.Node{
		`{"url":"/login","client_ip":"192.0.2.7"}`:                                   one,
		`{"url":"/login","headers":{"Host":"only.test"},"client_ip":"192.0.2.7"}`:    two,
		`{"url":"` + two.URL + `","headers":{"Host":"only.test"},"client_ip":"::1"}`: two,
	} {
		if a := decides.Ask(t, "POST", "explain", body); !strings.Contains(a.Body, `"key":"only.test"`) {
			t.Errorf("%s: got %v", body, a)
		}
	}
	if a := two.Ask(t, "POST", "explain", `{"url":"/login","client_ip":"192.0.2.7"}`); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "host") {
		t.Errorf("got %v; want to be asked for the host", a)
	}
}

// TestExplain_redisHangs checks that explain waits once, and that policies in dry run fail locally.
func TestExplain_redisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var limits strings.Builder
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		limits.WriteString("policy " + name + " {\nkey same\nlimit 5\nwindow 24h\n}\n")
	}
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\ntimeout 5s\n}",
		"redis_ratelimit {\nfail_mode closed\n"+limits.String()+"policy g {\nkey same\nlimit 5\nwindow 24h\ndry_run\n}\n}"+caddytest.ShowDecision))
	n.Get(t, "/")
	server.Pause(t)
	defer server.Resume(t)
	e := n.Explain(t, "/", "") // a wait for each policy would be longer than the client's
	if e.Decision != "denied" || len(e.Policies) != 7 {
		t.Fatalf("got %+v", e)
	}
	at := slices.IndexFunc(e.Policies, func(p caddytest.ExplainedPolicy) bool { return p.Decision != "failed_closed" })
	if pretending := e.Policies[6]; at != 6 || pretending.Decision != "allowed" || pretending.Source != "fallback" || pretending.Remaining != 4 {
		t.Errorf("got %+v", e)
	}
}
