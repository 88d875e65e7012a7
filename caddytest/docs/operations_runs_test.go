package docs

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file measures the table of docs/operations.md that says when Redis gets more than one script run.

// scriptRuns is how a row of the table is measured: by requests on a Redis of its own. A path may have CLIENT, the key
// of its client: an earlier run has Redis know the scripts already, with another key.
type scriptRuns struct {
	row     string // its first column
	options string // global ones
	site    string
	paths   []string // of requests that are measured, one after the other
	first   []string // of those before them
	status  int      // of each measured one; 0: 200
	source  string   // of their decisions, which Redis need not be asked for; empty: any

	unknown bool // Redis knows no script: no earlier run

	// cluster and ahead have a Cluster of three masters instead, or a Redis with another clock.
	cluster bool
	ahead   time.Duration
}

const (
	byAddress    = "redis_ratelimit {\nkey {client_ip}\nlimit 99\nwindow 24h\n"
	plainLimit   = "redis_ratelimit {\nkey {query.k}\nlimit 3\nwindow 24h\n"
	showResponse = "\nheader X-Cost 3\nrespond /login {http.redis_ratelimit.source} 401\nrespond {http.redis_ratelimit.source}\nhandle_errors {\nrespond {http.redis_ratelimit.source}\n}\n"
)

// three are three requests of one client.
var three = []string{"/?k=CLIENT", "/?k=CLIENT", "/?k=CLIENT"}

var scriptRunRows = []scriptRuns{
	{row: "allowed, whatever number of policies the directive has", site: "redis_ratelimit {\npolicy a {\nkey {query.k}\nlimit 9\nwindow 24h\n}\npolicy b {\nkey {query.k}\nlimit 99\nwindow 24h\nalgorithm token_bucket\n}\n}", paths: three},
	{row: "denied by Redis", options: "deny_cache off", site: "redis_ratelimit {\nkey {query.k}\nlimit 1\nwindow 24h\n}", paths: three, status: http.StatusTooManyRequests, first: three[:1]},
	{row: "denied again within `deny_cache`; the node asks again in the background while a client goes on", site: "redis_ratelimit {\nkey {query.k}\nlimit 1\nwindow 24h\n}", paths: three, status: http.StatusTooManyRequests, source: "deny_cache"},
	{row: "from an address that is `exempt`", site: plainLimit + "exempt 127.0.0.1\n}", paths: three},
	{row: "decided by a `lease`, which takes units of about 100 requests in one run", site: "redis_ratelimit {\nkey {query.k}\nlimit 100000\nwindow 1h\nlease 1s\n}", paths: three, source: "lease"},
	{row: "two directives: each in its turn", site: "redis_ratelimit {\nname a\nkey {query.k}\nlimit 9\nwindow 24h\n}\nredis_ratelimit {\nname b\nkey {query.k}\nlimit 9\nwindow 24h\n}", paths: three},
	{row: "policies enforced and in `dry_run`: calls of one batch", site: "redis_ratelimit {\npolicy a {\nkey {query.k}\nlimit 9\nwindow 24h\n}\npolicy b {\nkey {query.k}\nlimit 9\nwindow 24h\ndry_run\n}\n}", paths: three},
	{row: "`count_if` that takes first, whose response counts", site: plainLimit + "count_if status 401\n}", paths: []string{"/login?k=CLIENT", "/login?k=CLIENT"}, status: http.StatusUnauthorized},
	{
		row: "the same beside `ban`: take, confirm", site: plainLimit + "ban 24h\ncount_if status 401\n}",
		paths: []string{"/login?k=CLIENT", "/login?k=CLIENT"}, status: http.StatusUnauthorized,
	},
	{row: "`count_if` that takes first, whose response does not count: take, refund", site: plainLimit + "count_if status 401\n}", paths: three},
	{row: "`count_if` that looks first, whose response counts: look, charge", site: byAddress + "count_if status 401\n}", paths: []string{"/login", "/login"}, status: http.StatusUnauthorized},
	{row: "`count_if` that looks first, whose response does not count", site: byAddress + "count_if status 401\n}", paths: []string{"/", "/", "/"}},
	{row: "`count` that does not match, beside other policies", site: "redis_ratelimit {\npolicy trap {\nkey {client_ip}\nlimit 1\nwindow 24h\ncount path /.env\nban 24h\n}\npolicy site {\nkey {client_ip}\nlimit 99\nwindow 24h\n}\n}", paths: []string{"/", "/", "/"}},
	{row: "`cost`: take an estimate, correct it after the response", site: "redis_ratelimit {\nkey {query.k}\nlimit 1MB\nwindow 24h\ncost response_bytes\n}", paths: three},
	{row: "`cost`, whose estimate was right", site: "redis_ratelimit {\nkey {query.k}\nlimit 99\nwindow 24h\nweight 3\ncost {http.response.header.X-Cost} 1\n}", paths: three},
	{row: "`max_concurrent`: when a request begins and when it ends", site: "redis_ratelimit {\nkey {query.k}\nmax_concurrent 2\n}", paths: three},
	{row: "a page of `usage`; a client that loads it ever again has one each 0.1 s", site: plainLimit + "usage /quota\n}", paths: []string{"/quota?k=CLIENT"}},
	{row: "Cluster, keys in two slots: look at each, take from each", cluster: true, site: "redis_ratelimit {\npolicy a {\nkey {query.k}\nlimit 9\nwindow 24h\n}\npolicy b {\nkey {query.k}-\nlimit 9\nwindow 24h\n}\n}", paths: three},
	{row: "the first of its kind since Redis started: an unknown `EVALSHA`, then `EVAL`", unknown: true, site: plainLimit + "}", paths: three[:1]},
	{row: "by the calendar, the first while the clocks of node and Redis are a period apart", ahead: 5 * 24 * time.Hour, site: "redis_ratelimit {\nkey {query.k}\nlimit 9\nwindow day\n}", paths: three[:1]},
}

// A script that Redis does not know is sent a second time, by EVAL. Nodes that start send an EVAL of their own.
var scriptCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)|errorstat_NOSCRIPT:count=(\d+)`)

// runsOn returns how many scripts of requests servers have been sent, whatever they answered.
func runsOn(t *testing.T, servers []*redistest.Server) (runs int) {
	t.Helper()
	for _, s := range servers {
		for _, section := range []string{"commandstats", "errorstats"} {
			text := assert.NoError(s.Client(t).Info(t.Context(), section).Result())(t)
			for _, found := range scriptCalls.FindAllStringSubmatch(text, -1) {
				runs += assert.NoError(strconv.Atoi(found[1] + found[2]))(t)
			}
		}
	}
	return runs
}

// start starts the row's servers.
func (r *scriptRuns) start(t *testing.T) (servers []*redistest.Server, config string) {
	t.Helper()
	option := "redis_ratelimit {\n%s\ntimeout 10s\n" + r.options + "\n}"
	switch {
	case r.cluster:
		servers = redistest.StartCluster(t)
		option = fmt.Sprintf(option, "redis {\nmode cluster\naddress "+servers[0].Addr+"\n}")
	case r.ahead != 0:
		servers = []*redistest.Server{redistest.StartAt(t, r.ahead)}
	default:
		servers = []*redistest.Server{redistest.Start(t)}
	}
	if !r.cluster {
		option = fmt.Sprintf(option, "redis redis://"+servers[0].Addr)
	}
	return servers, caddytest.Config(option, r.site+showResponse)
}

// request sends a request of a client, where the row has a source until this decides.
func (r *scriptRuns) request(t *testing.T, n *caddytest.Node, path, client string) {
	t.Helper()
	path = strings.ReplaceAll(path, "CLIENT", client)
	a := n.Get(t, path)
	for i := 0; r.source != "" && a.Body != r.source; i++ { // a busy key has a lease, a pause ends denials and leases
		assert.FatalIf(t, i > 2000, "%s: %q decides, not %q", path, a.Body, r.source)
		a = n.Get(t, path)
	}
	a.Want(t, max(r.status, http.StatusOK), caddytest.Any)
}

// prepare sends the requests that come before the measured ones of a client. The node decides by itself after them
// where the row says so.
func (r *scriptRuns) prepare(t *testing.T, n *caddytest.Node, client string) {
	t.Helper()
	for _, path := range r.first {
		n.Get(t, strings.ReplaceAll(path, "CLIENT", client))
	}
	if r.source != "" {
		r.request(t, n, r.paths[0], client)
	}
}

// measure returns how many scripts servers get around each request. Requests wait for the scripts of the one before,
// which would share a run with theirs.
func (r *scriptRuns) measure(t *testing.T, n *caddytest.Node, servers []*redistest.Server, each int) int {
	t.Helper()
	before, want := runsOn(t, servers), 0
	for _, path := range r.paths {
		r.request(t, n, path, "measured")
		want += each
		assert.Retry(t, fmt.Sprintf("%s has %d script runs", path, each), func() (again bool, seen any) {
			runs := runsOn(t, servers) - before
			return runs < want, runs
		})
	}
	if r.source == "" {
		n.Stop(t) // after what it had still to send
	}
	return runsOn(t, servers) - before
}

// TestOperations_scriptRuns compares each row of the table with what Redis's own count of commands has.
func TestOperations_scriptRuns(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(operationsText(t), "\n## When does Redis get more than one script run?\n")
	section, _, _ = strings.Cut(section, "\n## ")
	table := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*\S) *\| (\d+) \|$`).FindAllStringSubmatch(section, -1) {
		table[row[1]] = assert.NoError(strconv.Atoi(row[2]))(t)
	}
	assert.ErrorIf(t, len(table) != len(scriptRunRows), "the page has %d rows, %d are measured", len(table), len(scriptRunRows))
	for _, r := range scriptRunRows {
		t.Run(r.row, func(t *testing.T) {
			t.Parallel()
			each, found := table[r.row]
			assert.FatalIf(t, !found, "docs/operations.md has no row %q", r.row)
			servers, config := r.start(t)
			if !r.unknown && r.source == "" {
				n := caddytest.Start(t, config)
				for i := range 12 { // whose keys lie on each master of a Cluster
					client := fmt.Sprint("earlier", i)
					r.prepare(t, n, client)
					for _, path := range r.paths {
						r.request(t, n, path, client)
					}
				}
				n.Stop(t)
			}
			n := caddytest.Start(t, config)
			r.prepare(t, n, "measured")
			runs, want := r.measure(t, n, servers, each), each*len(r.paths)
			if r.source != "" && runs < len(r.paths) {
				runs = want // in the background the node may have asked Redis for later requests
			}
			assert.Equal(t, runs, want, "script runs of %d requests", len(r.paths))
		})
	}
}
