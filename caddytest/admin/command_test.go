package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// startLimited starts a node on a Redis, with a client that was denied once.
func startLimited(t *testing.T, server *redistest.Server) *caddytest.Node {
	t.Helper()
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), caddytest.LimitedSite))
	caddytest.WaitForRedis(t, n, "/")
	n.GetTimes(t, 3, "/", "X-Key: greedy")
	return n
}

func TestCommands_stateAndReset(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := startLimited(t, server)
	n.Ratelimit(t, "policies").Want(t, 0, "caddy-redis-ratelimit ", ", Caddy v2.", "redis standalone "+server.Addr+": decides in", "breaker closed",
		"\napi: 2 requests per day for each header X-Key\n", "  since start  4 requests met, 1 denied, 0 would be denied, 3 counted\n")
	state := []string{"state", "--policy", "api", "--key", "greedy"}
	n.Ratelimit(t, state...).Want(t, 0, "remaining    0\n", "retry after  in ", "source       redis", "rl:{greedy}:api:c1d  string", "units=2")
	n.Ratelimit(t, "top").Want(t, 0, "on this node", "DENIED  ±ERROR  POLICY  KEY", "     1      ±0  api     greedy")
	n.Ratelimit(t, "top", "--policy", "api", "-n", "1", "--json").ParseJSON(t)
	explain := []string{"explain", "--url", n.URL + "/", "--client-ip", "203.0.113.7", "--header", "X-Key: greedy"}
	n.Ratelimit(t, explain...).Want(t, 4, ": denied\n", "POLICY", "api     greedy  denied         1   0/2  ")
	n.Ratelimit(t, "reset", "--policy", "api", "--key", "greedy").Want(t, 0, "1 quota reset")
	n.Ratelimit(t, explain...).Want(t, 0, ": allowed\n", "api     greedy  allowed        1   2/2    now    now  redis")
	n.Get(t, "/", "X-Key: greedy")
	n.Ratelimit(t, "reset", "--policy", "api", "--all", "--json").Want(t, 0, `{"deleted":`)
	n.Ratelimit(t, state...).Want(t, 0, "remaining    2\n", "reset after  now")
}

func TestCommands_json(t *testing.T) {
	t.Parallel()
	n := startLimited(t, redistest.Start(t))
	for _, args := range [][]string{
		{"policies"}, {"top"}, {"state", "--policy", "api", "--key", "greedy"}, {"explain", "--url", n.URL},
		{"reset", "--policy", "api", "--key", "unknown"},
	} {
		n.Ratelimit(t, append(args, "--json")...).ParseJSON(t)
	}
	came := n.Send(t, "POST", n.Admin+"/redis_ratelimit/reset", `{"policy":"api","key":"unknown"}`, "Content-Type: application/json")
	n.Ratelimit(t, "reset", "--policy", "api", "--key", "unknown", "--json").Want(t, 0, came.Body)
	e := n.Ratelimit(t, "state", "--policy", "none", "--key", "k", "--json")
	e.Want(t, 2, "none")
	answer := e.ParseJSON(t)
	assert.ErrorIf(t, answer["error"] == "", "got %v; want the error of the admin API", e)
}

func TestCommands_exitCode2(t *testing.T) {
	n := caddytest.InProcess(t, caddytest.LimitedSite)
	for _, args := range [][]string{
		{"state", "--policy", "none", "--key", "k"}, {"reset", "--policy", "none", "--all"}, {"top", "--policy", "none"},
		{"state", "--policy", "api", "--key", `\x`}, {"top", "-n", "0"}, {"explain", "--url", "http://h/", "--client-ip", "unknown"},
	} {
		e := n.Ratelimit(t, args...)
		e.Want(t, 2, "Error: ")
		assert.ErrorIf(t, e.Stdout != "" || strings.Count(e.Stderr, "\n") != 1, "%v: got %v; want one line", args, e)
	}
}

func TestCommands_exitCode1(t *testing.T) {
	t.Parallel()
	nowhere := redistest.FreeAddr(t)
	caddytest.RunRatelimit(t, nil, "policies", "--config", caddytest.WriteCaddyfile(t, "{\n\tadmin off\n}\n")).Want(t, 1, "admin off", "--address")
	caddytest.RunRatelimit(t, nil, "policies", "--address", nowhere).Want(t, 1, "no Caddy answers at the admin address "+nowhere, "--address")
	n := caddytest.Start(t, caddytest.Config("", "respond ok"))
	n.Ratelimit(t, "policies").Want(t, 1, "the running configuration has no redis_ratelimit")
	site := strings.TrimPrefix(n.URL, "http://")
	caddytest.RunRatelimit(t, nil, "policies", "--address", site).Want(t, 1, "has no endpoint /redis_ratelimit/policies")
	for _, args := range [][]string{
		{"state", "--policy", "api"}, {"reset", "--policy", "api"}, {"explain"}, {"policies", "surplus"},
		{"explain", "--url", "/", "--header", "no colon"}, {"policies", "--config", "missing"}, {"bogus"}, {"--json", "bogus"},
	} {
		e := caddytest.RunRatelimit(t, nil, args...)
		assert.ErrorIf(t, e.Code != 1 || e.Stdout != "" || !strings.Contains(e.Stderr, "Error: "), "%v: got %v", args, e)
	}
}

func TestCommands_unknown(t *testing.T) {
	t.Parallel()
	caddytest.RunRatelimit(t, nil, "bogus").Want(t, 1, `unknown command "bogus" for "caddy redis-ratelimit"`)
	caddytest.RunRatelimit(t, nil, "polices").Want(t, 1, "did you mean policies?")
	caddytest.RunRatelimit(t, nil).Want(t, 0, "Available Commands:")
}

func TestCommands_invalidUTF8(t *testing.T) {
	n := caddytest.InProcess(t, unexamined(caddytest.LimitedSite))
	const key = "caf\xe9"
	n.Get(t, "/?k=caf%e9")
	for _, test := range []struct{ command, says string }{{"state", "remaining    1\n"}, {"reset", "1 quota reset\n"}} {
		n.Ratelimit(t, test.command, "--policy", "api", "--key", key).Want(t, 1, `\xNN`)
		n.Ratelimit(t, test.command, "--policy", "api", "--key", `caf\xe9`).Want(t, 0, test.says)
	}
	n.Ratelimit(t, "explain", "--url", n.URL, "--header", "X-Key: "+key).Want(t, 1, "--header", "no UTF-8")
	n.Ratelimit(t, "explain", "--url", n.URL+"/"+key).Want(t, 1, "%NN")
}

func TestCommands_exitCode4(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit {header.X-Key} 1 24h {\non_empty_key reject\n}\n"+caddytest.ShowDecision)
	explain := []string{"explain", "--url", n.URL, "--header"}
	n.Ratelimit(t, append(explain, "X-Key: k")...).Want(t, 0, ": allowed\n")
	n.Ratelimit(t, append(explain, "X-Other: k")...).Want(t, 4, ": rejected with the status 400\n")
	n.Get(t, "/", "X-Key: k")
	n.Ratelimit(t, append(explain, "X-Key: k")...).Want(t, 4, ": denied\n")
}

func TestCommands_adminEndpoint(t *testing.T) {
	n := caddytest.InProcess(t, caddytest.LimitedSite)
	file := caddytest.WriteCaddyfile(t, "{\n\tadmin "+strings.TrimPrefix(n.Admin, "http://")+"\n}\n")
	e := caddytest.RunRatelimit(t, nil, "policies", "--config", file)
	if e.Want(t, 0, "memory of this process: 0 of at most 1,000,000 keys", "api"); e.Stderr != "" {
		t.Errorf("got %v; want nothing of what Caddy logs about reading the file", e)
	}
}

func TestCommands_redisDown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := startLimited(t, server)
	server.Kill()
	state := []string{"state", "--policy", "api", "--key", "greedy"}
	e := n.Ratelimit(t, state...)
	e.Want(t, 3, "Error: Redis cannot be asked: ", "limit        2\n", "source       fallback")
	assert.ErrorIf(t, !strings.HasPrefix(e.Stderr, "Error: ") || strings.Contains(e.Stdout, "Error"), "got %v; want the error on stderr", e)
	answer := n.Ratelimit(t, append(state, "--json")...)
	answer.Want(t, 3)
	assert.ErrorIf(t, answer.ParseJSON(t)["source"] != "fallback", "got %v", answer)
	n.Ratelimit(t, "reset", "--policy", "api", "--all").Want(t, 3, "on this node alone")
	n.Get(t, "/", "X-Key: greedy").Want(t, http.StatusOK, "allowed fallback")
	n.Ratelimit(t, "explain", "--url", n.URL, "--client-ip", "203.0.113.7", "--header", "X-Key: other").Want(t, 3, "fallback")
	n.Ratelimit(t, "policies").Want(t, 0, "does not decide", "breaker open")
	n.Ratelimit(t, "top").Want(t, 0, "greedy")
}

func TestCommands_completion(t *testing.T) {
	n := caddytest.InProcess(t, caddytest.LimitedSite)
	asks := func(args ...string) string {
		e := caddytest.Run{}.Caddy(t, append([]string{"__completeNoDesc", "redis-ratelimit"}, args...)...)
		e.Want(t, 0)
		return e.Stdout
	}
	address := strings.TrimPrefix(n.Admin, "http://")
	got := asks("state", "--address", address, "--policy", "a")
	assert.ErrorIf(t, !strings.HasPrefix(got, "api\n:4\n"), "got %q", got)
	got = asks("top", "--address", redistest.FreeAddr(t), "--policy", "")
	assert.ErrorIf(t, !strings.HasPrefix(got, ":4\n"), "got %q; want nothing where no Caddy answers", got)
	got = asks("")
	for _, name := range []string{"bans", "check", "explain", "override", "overrides", "policies", "reset", "state", "top"} {
		assert.ErrorIf(t, !strings.Contains("\n"+got, "\n"+name+"\n"), "got %q; want %s among them", got, name)
	}
	caddytest.Run{}.Caddy(t, "completion", "bash").Want(t, 0, "_caddy_redis-ratelimit_top")
}

func TestCommands_helpWidth(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"policies"}, {"state"}, {"reset"}, {"top"}, {"explain"}, {"check"}, {"override"}, {"overrides"}, {"bans"}, {"replay"}, {"try"}} {
		e := caddytest.RunRatelimit(t, nil, append(args, "--help")...)
		e.Want(t, 0, "Examples:")
		for line := range strings.Lines(e.Stdout) {
			if len([]rune(line)) > 81 && !strings.HasPrefix(line, "Use ") { // cobra's line
				t.Errorf("%v: too long: %s", args, line)
			}
		}
	}
}

// TestCommands_fullDisk prints the results of commands to a disk without room.
func TestCommands_fullDisk(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit same 3 24h"+caddytest.ShowDecision)
	for _, args := range [][]string{
		{"policies"}, {"policies", "--json"}, {"top"}, {"state", "--policy", "default", "--key", "same"},
		{"reset", "--policy", "default", "--key", "same"}, {"explain", "--url", "http://localhost/"},
	} {
		wantFullDisk(t, t.TempDir(), append(args, "--address", strings.TrimPrefix(n.Admin, "http://"))...)
	}
}

// wantFullDisk runs a command in a folder, with an output that has no room.
func wantFullDisk(t *testing.T, folder string, args ...string) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	defer full.Close() //nolint:errcheck // nothing was written
	caddytest.Run{Folder: folder, Stdout: full}.Ratelimit(t, args...).Want(t, 1, "no space left")
}

// TestCommands_controlCharacters has an admin endpoint with terminal sequences in every text, as in the
// key of a hostile client. [caddytest.RunRatelimit] fails where one is printed.
func TestCommands_controlCharacters(t *testing.T) {
	t.Parallel()
	const evil = `"\u001b[31m\u009b1m\u202e\n"`
	answers := map[string]string{
		"policies": `{"store":{"kind":EVIL,"mode":EVIL,"addresses":[EVIL],"error":EVIL,"breaker":EVIL,"fail_mode":EVIL},
			"policies":[{"name":EVIL,"algorithm":EVIL,"limit":1,"limit_from":EVIL,"window":1,"burst_from":EVIL,"handlers":[{"place":EVIL,"match":EVIL,"key":EVIL,"count_if":EVIL,"cost":EVIL}]}]}`,
		"state":   `{"policy":EVIL,"key":EVIL,"source":EVIL,"keys":[{"name":EVIL,"type":EVIL,"value":{EVIL:EVIL,"list":[EVIL]}}]}`,
		"reset":   `{"deleted":1}`,
		"top":     `{"since":60,"keys":[{"policy":EVIL,"key":EVIL,"denied":2}]}`,
		"explain": `{"server":EVIL,"client_ip":EVIL,"decision":EVIL,"policies":[{"policy":EVIL,"settings":{"name":EVIL,"calendar":EVIL,"time_zone":EVIL,"handlers":[{"key":EVIL}]},"key":EVIL,"decision":EVIL,"source":EVIL},{"decision":EVIL}],"skipped":[EVIL]}`,
	}
	var status atomic.Int64
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answers[strings.TrimPrefix(r.URL.Path, "/redis_ratelimit/")]
		if status.Load() != http.StatusOK {
			text = `{"error":EVIL}`
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "EVIL", evil)) // the command may stop reading
	}))
	t.Cleanup(admin.Close)
	for _, args := range [][]string{
		{"policies"}, {"state", "--policy", "p", "--key", "k"}, {"reset", "--policy", "p", "--all"}, {"top"}, {"explain", "--url", "/"},
	} {
		for code, want := range map[int64]int{http.StatusOK: 0, http.StatusNotFound: 2, http.StatusServiceUnavailable: 3, http.StatusInternalServerError: 1} {
			status.Store(code)
			e := caddytest.RunRatelimit(t, nil, append(args, "--address", strings.TrimPrefix(admin.URL, "http://"))...)
			assert.ErrorIf(t, strings.ContainsAny(e.Stdout+e.Stderr, "\u009b\u202e"), "%v, status %d: %q", args, code, e.Stdout+e.Stderr)
			assert.ErrorIf(t, e.Code != want, "%v, status %d: got %v; want exit code %d", args, code, e, want)
		}
	}
}
