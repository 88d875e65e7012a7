package tryout_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/redis-ratelimit/caddy-redis-ratelimit" // the Caddyfiles have its directive
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/tryout"
)

// try plays a Caddyfile.
func try(t testing.TB, caddyfile string, o tryout.Inputs) *tryout.Report {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	assert.Must(t, err)
	return assert.NoError(tryout.Run(context.Background(), config, o))(t)
}

// words tells of a policy in a line.
func words(p *tryout.PlayedPolicy) string {
	if p.NotPlayed != "" {
		return p.Name + " not played: " + p.NotPlayed
	}
	text := fmt.Sprintf("%s %d", p.Name, p.RefusedAfter)
	if p.FreeWhen != "" {
		text += " " + p.FreeWhen
	} else if p.FreeAfter > 0 {
		text += " " + display.Compact(time.Duration(p.FreeAfter).Round(time.Second))
	}
	if p.BannedFor > 0 {
		text += fmt.Sprintf(" ban %s at %d", display.Compact(time.Duration(p.BannedFor)), p.BannedAt)
	}
	if p.RefusedAfter >= 0 {
		text += fmt.Sprintf(" once %d %s", p.AtOnce, p.Other)
	}
	for _, f := range p.Findings {
		text += "; " + f.Spelling + " " + f.Effect
	}
	return text
}

// site is a site of a Caddyfile in front of an application.
func site(directives string) string {
	return "example.com {\n" + directives + "\nreverse_proxy localhost:9000\n}\n"
}

const (
	login      = "redis_ratelimit {client_ip} 5 15m {\nname login\nmatch {\nmethod POST\npath /login\n}\ncount_if status 401\n}"
	uncounted  = "; POST /login/ is not counted"
	ofAddress  = " has a second quota, that of its address"
	ownQuota   = " has a quota of its own"
	byFallback = "; Authorization: Bearer abc; Authorization: Bearer abc" + ofAddress
)

// TestRun has the mistakes that are seen.
func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		caddyfile string
		options   tryout.Inputs
		want      string
	}{
		"a path within the directive": {site(login), tryout.Inputs{}, "login 5 15m once 5 own"},
		"a path of the directive": {
			site("redis_ratelimit /login {client_ip} 5 15m {\nname login\ncount_if status 401\n}"), tryout.Inputs{},
			"login 5 15m once 10 own; GET /login/ is not counted",
		},
		"strict paths": {
			site("redis_ratelimit /login {client_ip} 5 15m {\nname login\n}"), tryout.Inputs{StrictPaths: true}, "login 5 15m once 5 own",
		},
		"a route for a path": {
			site("@login {\nmethod POST\npath /login\n}\nroute @login {\nredis_ratelimit {client_ip} 5 15m {\nname login\n}\n}"), tryout.Inputs{},
			"login 5 15m once 5 own" + uncounted,
		},
		"handle, and a handler for all other paths": {
			"example.com {\nhandle /login {\nredis_ratelimit {client_ip} 5 15m\nreverse_proxy localhost:9000\n}\nhandle {\nreverse_proxy localhost:9000\n}\n}",
			tryout.Inputs{}, "default 5 15m once 5 own; GET /login/ is not counted",
		},
		"handle, and no handler for other paths": {
			"example.com {\nhandle /login {\nredis_ratelimit {client_ip} 5 15m\nreverse_proxy localhost:9000\n}\n}", tryout.Inputs{},
			"default 5 15m once 5 own",
		},
		"a script": {
			site("redis_ratelimit /wp-login.php {client_ip} 5 15m"), tryout.Inputs{}, "default 5 15m once 5 own; GET /wp-login.php/ is not counted",
		},
		"a key of a credential": {
			site("redis_ratelimit {header.Authorization} 1000 1h"), tryout.Inputs{}, "default 1000 1h once 10 own" + byFallback,
		},
		"a key of a credential, or 400": {
			site("redis_ratelimit {header.Authorization} 1000 1h {\non_empty_key reject\n}"), tryout.Inputs{}, "default 1000 1h once 10 own",
		},
		"raw_key": {
			site("redis_ratelimit {header.Authorization} 1000 1h {\nraw_key\n}"), tryout.Inputs{}, "default 1000 1h once 10 own",
		},
		"a key of the URI": {
			site("redis_ratelimit {client_ip}:{uri} 5 1m"), tryout.Inputs{}, "default 5 1m once 5 own; GET /login%0a" + ofAddress + "; GET /login?x" + ownQuota,
		},
		"a key of the path": {
			site("redis_ratelimit {client_ip}:{path} 5 1m"), tryout.Inputs{}, "default 5 1m once 5 own; GET /login%0a" + ofAddress,
		},
		"a key of the path, or 400": {
			site("redis_ratelimit {client_ip}:{path} 5 1m {\non_empty_key reject\n}"), tryout.Inputs{}, "default 5 1m once 5 own",
		},
		"a path without its extensions": {
			site("redis_ratelimit {client_ip} 5 1m {\nmatch path /search\n}"), tryout.Inputs{},
			"default 5 1m once 5 own; GET /search.json is not counted",
		},
		"a path with its extensions": {
			site("redis_ratelimit {client_ip} 5 1m {\nmatch path /search /search.*\n}"), tryout.Inputs{}, "default 5 1m once 5 own",
		},
		"a cookie, others skipped": {
			site("redis_ratelimit {cookie.sid} 5 1m {\non_empty_key skip\n}"), tryout.Inputs{},
			"default 5 1m once 5 own; Cookie: \\xa0sid=abc" + ofAddress,
		},
		"a cookie, or 400": {
			site("redis_ratelimit {cookie.sid} 5 1m {\non_empty_key reject\n}"), tryout.Inputs{}, "default 5 1m once 5 own",
		},
		"a parameter, or 400": {
			site("redis_ratelimit {query.api_key} 5 1m {\non_empty_key reject\n}"), tryout.Inputs{}, "default 5 1m once 5 own",
		},
		"a credential, or 400": {
			site("redis_ratelimit {\npolicy default {\nkey {credential}\nlimit 5\nwindow 1m\non_empty_key reject\n}\n}"), tryout.Inputs{},
			"default 5 1m once 5 own",
		},
		"a user of Basic, or 400": {
			site("redis_ratelimit {credential.user} 5 1m {\non_empty_key reject\n}"), tryout.Inputs{}, "default 5 1m once 5 own",
		},
		"a host": {":80 {\nredis_ratelimit {host} 5 1m\nreverse_proxy localhost:9000\n}", tryout.Inputs{}, "default 5 1m once 5 same; Host: exa%6dple.com" + ofAddress},
		"a cookie": {
			site("redis_ratelimit {cookie.sid} 5 1m"), tryout.Inputs{}, "default 5 1m once 5 own; Cookie: Sid=def; sid=abc" + ofAddress,
		},
		"a header that clients write": {
			site("redis_ratelimit {header.X-Forwarded-For} 5 1m {\non_empty_key reject\n}"), tryout.Inputs{},
			"default 5 1m once 5 own; X-Forwarded-For: 192.0.2.66" + ownQuota,
		},
		"trusted proxies": {
			"{\nservers {\ntrusted_proxies static 10.0.0.0/8\n}\n}\n" + site("redis_ratelimit {client_ip} 5 1m"), tryout.Inputs{},
			"default 5 1m once 5 own; X-Forwarded-For: 192.0.2.66, 198.51.100.7" + ownQuota,
		},
		"trusted proxies, strictly": {
			"{\nservers {\ntrusted_proxies static 10.0.0.0/8\ntrusted_proxies_strict\n}\n}\n" + site("redis_ratelimit {client_ip} 5 1m"),
			tryout.Inputs{}, "default 5 1m once 5 own",
		},
		"a header of a CDN": {
			"{\nservers {\ntrusted_proxies static 10.0.0.0/8\nclient_ip_headers CF-Connecting-IP X-Forwarded-For\n}\n}\n" +
				site("redis_ratelimit {client_ip} 5 1m"), tryout.Inputs{}, "default 5 1m once 5 own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := try(t, test.caddyfile, test.options)
			var got []string
			for i := range report.Policies {
				got = append(got, words(&report.Policies[i]))
			}
			assert.Equal(t, strings.Join(got, "\n"), test.want, "what is told")
			assert.Equal(t, report.Failed(), strings.Contains(test.want, "; "), "failed")
		})
	}
}

// TestRun_unseen has the mistakes that are not seen: what an application does is not known, and what a configuration leaves
// open is taken as it is meant.
func TestRun_unseen(t *testing.T) {
	for name, test := range map[string]struct{ caddyfile, want string }{
		"count_if 401 for an application that answers 200": {site(login), "login 5 15m once 5 own"},
		"a limit that is too large":                        {site("redis_ratelimit {client_ip} 1000000 1s"), "default 1000000 1s once 10 own"},
		"a user's page without a limit":                    {site("redis_ratelimit {client_ip} 5 1m {\nmatch path /search/*\n}"), "default 5 1m once 5 own"},
		"a key that clients invent":                        {site("redis_ratelimit {header.X-Key} 5 1m {\non_empty_key reject\n}"), "default 5 1m once 5 own"},
		"a CDN in front that is not trusted": {
			"{\nservers {\ntrusted_proxies static 10.0.0.0/8\ntrusted_proxies_strict\n}\n}\n" + site("redis_ratelimit {client_ip} 5 1m"), "default 5 1m once 5 own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := try(t, test.caddyfile, tryout.Inputs{})
			assert.Equal(t, words(&report.Policies[0]), test.want, "what is told")
			assert.ErrorIf(t, report.Failed() || !report.Whole(), "%+v", report)
		})
	}
}

// TestRun_options plays what the options of policies do.
func TestRun_options(t *testing.T) {
	for name, test := range map[string]struct {
		directives string
		options    tryout.Inputs
		want       string
	}{
		"a large limit":               {"redis_ratelimit {client_ip} 50000 1h", tryout.Inputs{}, "default 50000 1h once 10 own"},
		"everyone":                    {"redis_ratelimit everyone 5 1m", tryout.Inputs{}, "default 5 1m once 5 same"},
		"a burst":                     {"redis_ratelimit {client_ip} 60 1m {\nalgorithm token_bucket\nburst 3\n}", tryout.Inputs{}, "default 3 1s once 3 own"},
		"running requests":            {"redis_ratelimit {\nmax_concurrent 3\n}", tryout.Inputs{}, "default 3 a_request_ends once 3 own"},
		"waiting requests":            {"redis_ratelimit {\nmax_concurrent 3\nwait 5s\n}", tryout.Inputs{}, "default 3 a_request_ends once 3 own"},
		"a dry run that would reject": {"redis_ratelimit {header.X-Api-Key} 5 1m {\ndry_run\non_empty_key reject\n}", tryout.Inputs{}, "default 5 1m once 5 own"},
		"a dry run":                   {"redis_ratelimit {client_ip} 5 1m {\ndry_run\n}", tryout.Inputs{}, "default 5 1m once 5 own"},
		"a ban":                       {"redis_ratelimit {client_ip} 5 1m {\nban 1h after 3\n}", tryout.Inputs{}, "default 5 1m ban 1h at 3 once 5 own"},
		"weights":                     {"redis_ratelimit {client_ip} 10 1m {\nweight 4\n}", tryout.Inputs{}, "default 2 1m8s once 2 own"},
		"a weight too large":          {"redis_ratelimit {client_ip} 10 1m {\nweight {query.n} 1\n}", tryout.Inputs{URLs: []string{"https://example.com/?n=20"}}, "default 0 never once 0 same"},
		"a month":                     {"redis_ratelimit {client_ip} 10 month", tryout.Inputs{}, "default 10 744h once 10 own"},
		"bytes":                       {"redis_ratelimit {client_ip} 10MB 1h {\ncost response_bytes\n}", tryout.Inputs{}, "default 5 1h once 10 own"},
		"a challenge":                 {"redis_ratelimit {client_ip} 5 1m {\nchallenge 3\n}", tryout.Inputs{}, "default 5 1m once 5 own"},
		"a limit of a map": {
			"map {header.X-Plan} {plan} {\nabc 7\ndefault 3\n}\nredis_ratelimit {\nkey {client_ip}\nlimit {plan} 5\nwindow 1m\nmatch header X-Plan *\n}",
			tryout.Inputs{}, "default 7 1m once 7 own",
		},
		"a user": {
			"redis_ratelimit {http.auth.user.id} 5 1m", tryout.Inputs{},
			"default not played: its key {http.auth.user.id} is empty: what sets it is not run, or sets it for other requests; give a value by --as user.id=bob, or the request by --url, -H",
		},
		"a user that is given": {
			"redis_ratelimit {http.auth.user.id} 5 1m", tryout.Inputs{Values: map[string]string{"user.id": "bob"}}, "default 5 1m once 5 own",
		},
		"a header of forward_auth": {
			"route {\nforward_auth localhost:9001 {\nuri /\ncopy_headers Remote-User\n}\nredis_ratelimit {header.Remote-User} 5 1m\n}", tryout.Inputs{},
			"default not played: its key {header.Remote-User} is set by forward_auth, which is not run; give a value by --as header.Remote-User=bob",
		},
		"a header of forward_auth that is given": {
			"route {\nforward_auth localhost:9001 {\nuri /\ncopy_headers Remote-User\n}\nredis_ratelimit {header.Remote-User} 5 1m {\non_empty_key reject\n}\n}",
			tryout.Inputs{Values: map[string]string{"header.Remote-User": "bob"}}, "default 5 1m once 5 own",
		},
		"a value of JSON": {
			"redis_ratelimit {json.user.email} 5 1m {\nmatch method POST\non_empty_key reject\n}", tryout.Inputs{}, "default 5 1m once 5 own",
		},
		"a field of a form": {
			"redis_ratelimit {form.email} 5 1m {\nmatch method POST\non_empty_key reject\n}", tryout.Inputs{}, "default 5 1m once 5 own",
		},
		"a body that is given": {
			"redis_ratelimit {form.email} 5 1m {\nmatch method POST\non_empty_key reject\n}", tryout.Inputs{Body: []byte("email=x"), Method: "POST"},
			"default 5 1m once 5 same",
		},
		"an expression": {
			"redis_ratelimit {client_ip} 5 1m {\nmatch expression `{query.q} == \"z\"`\n}", tryout.Inputs{},
			"default not played: a matcher asks for what cannot be made up (expression); give a request by --url, -X, -H, -d",
		},
		"an expression, with a request": {
			"redis_ratelimit {client_ip} 5 1m {\nmatch expression `{query.q} == \"z\"`\n}", tryout.Inputs{URLs: []string{"https://example.com/?q=z"}},
			"default 5 1m once 5 own",
		},
		"matchers that are made up for": {
			"redis_ratelimit {client_ip} 5 1m {\nmatch {\nmethod PUT\npath_regexp ^/v[0-9]+/items/\\d+$\nheader X-Kind a*\nquery page=*\nprotocol https\n}\n}",
			tryout.Inputs{StrictPaths: true}, "default 5 1m once 5 own",
		},
		"a handler in front": {
			"route {\nrespond /x 404\nredis_ratelimit /x {client_ip} 5 1m\n}", tryout.Inputs{},
			"default not played: no request that was made up comes to it: earlier routes answer, or its matchers exclude each other; give one by --url, -X, -H, -d",
		},
		"an exempt client": {
			"redis_ratelimit {\npolicy default {\nkey {client_ip}\nlimit 5\nwindow 1m\n}\nexempt 198.51.100.0/24\n}", tryout.Inputs{}, "default not played: the client is exempt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := try(t, site(test.directives), test.options)
			assert.Equal(t, words(&report.Policies[0]), test.want, "what is told")
			assert.ErrorIf(t, report.Failed() || report.Whole() == strings.Contains(test.want, "not played"), "%+v", report)
		})
	}
}

// TestRun_sites plays policies of several sites, with snippets, named policies and matchers of hosts.
func TestRun_sites(t *testing.T) {
	report := try(t, `{
	redis_ratelimit {
		crawlers {
			google
		}
	}
	servers {
		protocols h1 h2
	}
}
(limits) {
	redis_ratelimit {client_ip} 5 1m {
		name {args[0]}
	}
}
a.example.com {
	import limits a
	respond a
}
*.example.org:8443, b.example.com:8443 {
	@hosts host {$TRY_HOST:b.example.com}
	route @hosts {
		import limits b
	}
	respond b
}
:8080 {
	import limits c
	redis_ratelimit {http.redis_ratelimit.crawler} 5 1m {
		name crawlers
		on_empty_key skip
	}
	respond c
}
`, tryout.Inputs{})
	var got []string
	for i := range report.Policies {
		got = append(got, report.Policies[i].Request+" "+words(&report.Policies[i]))
	}
	assert.Equal(t, strings.Join(got, "\n"), strings.Join([]string{
		"GET a.example.com/ a 5 1m once 5 own", "GET example.com:8080/ c 5 1m once 5 own",
		" crawlers not played: its key {http.redis_ratelimit.crawler} goes by crawlers, which are told by the DNS, and that is not asked here",
		"GET b.example.com:8443/ b 5 1m once 5 own",
	}, "\n"), "the policies")
}

// TestRun_out_of_reach lists policies that no request comes to at first.
func TestRun_out_of_reach(t *testing.T) {
	report := try(t, site(login+"\nhandle_errors {\nredis_ratelimit {client_ip} 5 1m {\nname errors\n}\n}"), tryout.Inputs{})
	assert.Equal(t, len(report.Policies), 2, "policies")
	assert.Equal(t, words(&report.Policies[1]), "errors not played: it stands in routes for errors or for responses, which are not played", "what is told")
	assert.ErrorIf(t, report.Whole(), "%+v", report)
}

// TestRun_errors are of the options, and of configurations that cannot be played.
func TestRun_errors(t *testing.T) {
	for config, want := range map[string]string{
		`{"apps":{"http":{"servers":{"s":{"routes":[{"handle":[{"handler":"no_such"}]}]}}}}}`:                      "no module http.handlers.no_such",
		`{"apps":{"http":{"servers":{"s":{"routes":[{"match":[{"nope":1}],"handle":[{"handler":"respond"}]}]}}}}}`: "no module http.handlers.respond",
		`{"apps":{"http":{"servers":{"s":{"routes":[{"match":[{"nope":1}]}]}}}}}`:                                  "unknown module: http.matchers.nope",
		`{}`: "no redis_ratelimit in any site", `[]`: "cannot unmarshal array",
		`{"apps":{"http":{"servers":{"s":null}}}}`: "is null",
	} {
		_, err := tryout.Run(context.Background(), []byte(config), tryout.Inputs{})
		assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "%s: %v, want %s", config, err, want)
	}
	_, err := tryout.Run(context.Background(), nil, tryout.Inputs{URLs: []string{"example.com/x"}})
	assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), "begin it with http://"), "%v", err)
}

// TestRun_bounded ends in time, and never by a panic, however large or strange a configuration is.
func TestRun_bounded(t *testing.T) {
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "redis_ratelimit {cookie.c%d} 900 1h {\nname p%d\nmatch path /a%d/* /b%d\n}\n", i, i, i, i)
	}
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(site(many.String())), nil)
	assert.Must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	report := assert.NoError(tryout.Run(ctx, config, tryout.Inputs{}))(t)
	assert.Equal(t, len(report.Policies), 300, "policies")
	assert.Equal(t, report.Policies[299].NotPlayed, "there was no time left", "the last policy")
	for _, o := range []tryout.Inputs{
		{URLs: []string{"http://[::1]:x%/", "https://%zz"}}, {URLs: []string{"https://example.com/%zz?%zz#"}}, {Method: "G T"}, {Method: "\x00"},
		{Header: http.Header{"Host": {"\x00"}, "": {"\r\n"}}}, {Body: []byte{0xff}}, {Values: map[string]string{"": "x", "{}": "\x00", "header.": "x"}},
		{URLs: []string{"https://example.com/" + strings.Repeat("/;x%2f", 1000)}},
	} {
		_, _ = tryout.Run(context.Background(), assert.NoError(adapt(site(login+"\nredis_ratelimit {query.x}{header.}{json.a.b}{path.0} 5 1m {\nname q\n}")))(t), o)
	}
}

func adapt(caddyfile string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	return config, err
}

// TestRun_page plays the Caddyfile of docs/replay.md, which shows what is printed.
func TestRun_page(t *testing.T) {
	const path = "../../../docs/replay.md"
	page := string(assert.NoError(os.ReadFile(path))(t))
	_, caddyfile, _ := strings.Cut(page, "```caddyfile-snippet\n")
	caddyfile, rest, found := strings.Cut(caddyfile, "```\n\n```\n$ caddy redis-ratelimit try --config Caddyfile\n")
	shown, after, ended := strings.Cut(rest, "```\n")
	assert.FatalIf(t, !found || !ended, "%s shows no try", path)
	var text bytes.Buffer
	try(t, caddyfile, tryout.Inputs{}).WriteTable(display.NewWriter(&text))
	if os.Getenv("UPDATE_GOLDEN") != "" {
		begin := strings.TrimSuffix(page, shown+"```\n"+after)
		assert.Must(t, os.WriteFile(path, []byte(begin+text.String()+"```\n"+after), 0o600))
		return
	}
	assert.Equal(t, shown, text.String(), "what %s shows", path)
}

// TestReport_WriteTable escapes what a configuration has.
func TestReport_WriteTable(t *testing.T) {
	report := &tryout.Report{Policies: []tryout.PlayedPolicy{{Name: "a\x1b", Limit: "\x1b", NotPlayed: "\x1b", Findings: []tryout.Finding{{Spelling: "\x1b", Times: 2}}}}}
	var text bytes.Buffer
	report.WriteTable(display.NewWriter(&text))
	assert.ErrorIf(t, strings.ContainsRune(text.String(), '\x1b'), "%q", text.String())
}
