package reliability

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file runs the table of docs/operations.md, "While Redis is down": what each command does while Redis does not decide.

// undecided is a state in which Redis does not decide, though it may answer.
type undecided struct {
	name string

	// fail brings the server into the state, heal out of it. If there is no heal, the state ends with the server.
	fail, heal func(t *testing.T, s *redistest.Server)

	args []string // of the server, if it is in the state from its start
	idle bool     // no request comes meanwhile: only a question shows the state
}

// configured returns steps that set a setting of Redis, and set it back.
func configured(name, failing, good string) (fail, heal func(t *testing.T, s *redistest.Server)) {
	set := func(value string) func(t *testing.T, s *redistest.Server) {
		return func(t *testing.T, s *redistest.Server) {
			t.Helper()
			assert.Must(t, s.Client(t).ConfigSet(t.Context(), name, value).Err())
		}
	}
	return set(failing), set(good)
}

// permitted returns steps that take a right from the user, and give it back.
func permitted(right string) (fail, heal func(t *testing.T, s *redistest.Server)) {
	set := func(right string) func(t *testing.T, s *redistest.Server) {
		return func(t *testing.T, s *redistest.Server) {
			t.Helper()
			assert.Must(t, s.Client(t).Do(t.Context(), "acl", "setuser", "default", right).Err())
		}
	}
	return set("-" + right), set("+" + right)
}

// statesOfRedis are the states of the test.
func statesOfRedis(t *testing.T) []undecided {
	full, emptied := configured("maxmemory", "1", "0")
	lonely, accompanied := configured("min-replicas-to-write", "1", "0")
	forbidden, allowed := permitted("evalsha")
	unwritable, writable := permitted("set")
	master := redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr)
	assert.Must(t, err)
	replicate := func(of ...string) func(t *testing.T, s *redistest.Server) {
		return func(t *testing.T, s *redistest.Server) {
			t.Helper()
			assert.Must(t, s.Client(t).ReplicaOf(t.Context(), of[0], of[1]).Err())
			assert.Retry(t, "the replica has its master", func() (again bool, seen any) {
				info := s.Client(t).Info(t.Context(), "replication").Val()
				return of[0] == host && !strings.Contains(info, "master_link_status:up"), info
			})
		}
	}
	return []undecided{
		{name: "down", fail: func(_ *testing.T, s *redistest.Server) { s.Kill() }, heal: func(t *testing.T, s *redistest.Server) { s.Run(t) }},
		{name: "full", fail: full, heal: emptied},
		{name: "full while idle", fail: full, heal: emptied, idle: true},
		{name: "a replica", fail: replicate(host, port), heal: replicate("no", "one")},
		{name: "without replicas", fail: lonely, heal: accompanied},
		{name: "EVALSHA forbidden", fail: forbidden, heal: allowed},
		{name: "EVALSHA forbidden while idle", fail: forbidden, heal: allowed, idle: true},
		{name: "SET forbidden", fail: unwritable, heal: writable},
		{name: "EVALSHA renamed", args: []string{"--rename-command", "EVALSHA", ""}},
	}
}

const undecidedSite = `redis_ratelimit {header.X-Key} 2 24h {
		name api
		ban 1h after 2
	}
	redis_ratelimit {client_ip} 1000 24h {
		name addresses
	}` + caddytest.ShowDecision

// commandRun is a run of a command, with its exit code and texts of its output.
type commandRun struct {
	args  string
	code  int
	texts []string
}

// undecidedRows are the rows of the table, by their first cells. Of idle nodes, which have no state, no text is wanted of a
// state. KEPT is a key that was blocked while Redis decided, if it did.
func undecidedRows(s undecided) map[string][]commandRun {
	of := func(texts ...string) []string {
		if s.idle {
			return nil
		}
		return texts
	}
	return map[string][]commandRun{
		"`page`, `policies`, `top`": {
			{"policies", 0, []string{"does not decide"}}, {"policies --fail", 1, []string{"does not decide"}},
			{"top", 0, nil}, {"top --used --all-nodes", 3, nil},
		},
		"`explain`, `state`": {
			{"explain --url URL --header X-Key:used", 3, of("fallback")},
			{"state --policy api --key used", 3, of("source       fallback")},
		},
		"`override` with `--block`, `--exempt`, `--unban`, or `--remove` of one set meanwhile": {
			{"override --policy api --key attacker --block", 0, []string{"block on this node alone", "Hint: redis "}},
			{"override --policy addresses --range 203.0.113.0/24 --block", 0, []string{"block on this node alone"}},
			{"override --policy api --key friend --exempt", 0, []string{"exempt on this node alone"}},
			{"override --policy api --key friend --remove", 0, []string{"override removed on this node alone"}},
			{"override --policy api --key banned --unban", 0, of("1 ban lifted on this node alone")},
			{"override --policy api --all --unban", 0, of("0 bans lifted on this node alone")},
		},
		"`override` with `--limit`, or `--remove` of what lies in Redis": {
			{"override --policy api --key other --limit 5", 3, nil}, {"override --policy api --key kept --remove", 3, nil},
		},
		"`overrides`": {{"overrides", 3, []string{"attacker", "block on this node alone"}}},
		"`bans`":      {{"bans", 3, nil}},
		"`reset`": {
			{"reset --policy api --key used", 3, of("1 quota reset on this node alone")},
			{"reset --policy addresses --all", 3, of("reset on this node alone")},
		},
	}
}

var undecidedRow = regexp.MustCompile("(?m)^\\| (`[^|]*`[^|]*) \\| [^|]* \\| ([^|]*[0-9][^|]*) \\|$")

// documentedRows returns the exit codes of the documented table, by the first cells, in order.
func documentedRows(t *testing.T) (rows [][2]string) {
	t.Helper()
	_, section, _ := strings.Cut(caddytest.ReadFile(t, "docs/operations.md"), "\n## While Redis is down\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range undecidedRow.FindAllStringSubmatch(section, -1) {
		rows = append(rows, [2]string{row[1], row[2]})
	}
	return rows
}

// TestUndecided_commands runs the commands of the table in each state, on a node whose requests meet the state or not.
func TestUndecided_commands(t *testing.T) {
	t.Parallel()
	documented := documentedRows(t)
	for _, s := range statesOfRedis(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			rows := undecidedRows(s)
			assert.FatalIf(t, len(documented) != len(rows), "the table has the rows %q; the test has %d", documented, len(rows))
			server := redistest.Start(t, s.args...)
			n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 10s"), undecidedSite))
			if s.fail != nil {
				awaitRedis(t, n)
				n.OverrideInRedis(t, `{"policy":"api","key":"kept","block":true}`)
				s.fail(t, server)
			}
			meetState(t, n, s)
			for _, row := range documented { // blocks before the lists of these
				assert.FatalIf(t, rows[row[0]] == nil, "the test has no row %s", row[0])
			}
			for _, row := range documented {
				for _, run := range rows[row[0]] {
					words := strings.Fields(strings.ReplaceAll(run.args, "URL", n.URL+"/"))
					failed := t.Failed()
					n.Ratelimit(t, words...).Want(t, run.code, run.texts...)
					assert.ErrorIf(t, t.Failed() && !failed, "that was %s", run.args)
					assert.ErrorIf(t, !strings.Contains(row[1], string(rune('0'+run.code))), "the table says %q of %s", row[1], run.args)
				}
			}
			awaitPolls(t, server, s)
			n.Get(t, "/", "X-Key: attacker").Want(t, http.StatusTooManyRequests, "denied override")
			if s.heal != nil {
				s.heal(t, server)
				decidesAgain(t, n)
			}
		})
	}
}

// awaitRedis sends requests until Redis decides, each with a key of its own: replies that come late on a busy machine would use
// up the quota of one key.
func awaitRedis(t *testing.T, n *caddytest.Node) {
	t.Helper()
	var tries int
	assert.Retry(t, "Redis decides", func() (again bool, seen any) {
		tries++
		got := n.Get(t, "/", fmt.Sprint("X-Key: try ", tries))
		return got.Body != "allowed redis", got
	})
}

// meetState has requests meet the state, unless the node is idle. One client has a state then, and another one a ban.
func meetState(t *testing.T, n *caddytest.Node, s undecided) {
	t.Helper()
	if s.idle {
		return
	}
	n.Get(t, "/", "X-Key: used").Want(t, 0, "* fallback")
	n.Get(t, "/", "X-Key: used").Want(t, 0, "* fallback")
	for range 5 {
		n.Get(t, "/", "X-Key: banned")
	}
}

// awaitPolls waits until Redis has answered more polls of the overrides, which are reads, if it answers any.
func awaitPolls(t *testing.T, server *redistest.Server, s undecided) {
	t.Helper()
	if s.name == "down" {
		return
	}
	client := server.Client(t)
	polls := func() string {
		stats := client.Info(t.Context(), "commandstats").Val()
		_, stats, _ = strings.Cut(stats, "cmdstat_get:calls=")
		calls, _, _ := strings.Cut(stats, ",")
		return calls
	}
	for range 3 {
		before := polls()
		assert.Retry(t, "the node polls", func() (again bool, seen any) { return polls() == before, before })
	}
}

// decidesAgain waits until what the node did alone has ended, and sets an override in Redis.
func decidesAgain(t *testing.T, n *caddytest.Node) {
	t.Helper()
	assert.Retry(t, "the block of the node has ended", func() (again bool, seen any) {
		got := n.Get(t, "/", "X-Key: attacker")
		return got.Body == "denied override", got
	})
	assert.Retry(t, "Redis takes overrides", func() (again bool, seen any) {
		got := n.Override(t, 200, `{"policy":"api","key":"attacker","block":true}`)
		return strings.Contains(got.Body, "node_only"), got
	})
	n.Get(t, "/", "X-Key: attacker").Want(t, 0, "denied override")
	n.Ratelimit(t, "policies", "--fail").Want(t, 0, "decides in")
}

// TestUndecided_rights has a Redis that decides, and forbids what overrides need: a block applies on the node, over polls, until
// Redis takes overrides.
func TestUndecided_rights(t *testing.T) {
	forbid, allow := permitted("hset")
	n, server := caddytest.OnRedis(t, "timeout 10s", undecidedSite)
	awaitRedis(t, n)
	forbid(t, server)
	n.Override(t, 200, `{"policy":"api","key":"attacker","block":true}`).Want(t, 0, `*"node_only":true*"hint":"redis refuses (*`)
	n.Override(t, 503, `{"policy":"api","key":"other","limit":5}`)
	awaitPolls(t, server, undecided{})
	n.Get(t, "/", "X-Key: attacker").Want(t, 0, "denied override")
	n.Get(t, "/", "X-Key: other").Want(t, 0, "allowed redis")
	allow(t, server)
	decidesAgain(t, n)
}
