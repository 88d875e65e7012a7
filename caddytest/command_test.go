package caddytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// ending is the output and exit code of a command.
type ending struct {
	stdout, stderr string
	code           int
}

func (e ending) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", e.code, e.stdout, e.stderr)
}

// ratelimit runs 'caddy redis-ratelimit', for at most a minute.
func ratelimit(t testing.TB, env []string, args ...string) ending {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(binary(t), append([]string{"redis-ratelimit"}, args...)...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = environment(t, env...), t.TempDir(), time.Second
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	overdue := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // it may have ended already
	defer overdue.Stop()
	exit := new(exec.ExitError)
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	e := ending{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if strings.Contains(e.stdout+e.stderr, "\x1b") {
		t.Errorf("%v has colors or other orders to a terminal in a pipe: %v", args, e)
	}
	return e
}

// ratelimit runs a command with the admin address of this node.
func (n *node) ratelimit(t testing.TB, args ...string) ending {
	t.Helper()
	return ratelimit(t, nil, append(args, "--address", strings.TrimPrefix(n.Admin, "http://"))...)
}

// want checks the exit code of a command and texts of its output.
func (e ending) want(t testing.TB, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(e.stdout, text) && !strings.Contains(e.stderr, text) {
			t.Errorf("%q is missing in %v", text, e)
		}
	}
	if e.code != code {
		t.Errorf("got %v; want exit code %d", e, code)
	}
}

// parse parses the output of a command with --json.
func (e ending) parse(t testing.TB) (answer map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.stdout), &answer); err != nil {
		t.Fatalf("%v: %v", err, e)
	}
	return answer
}

// limited is a site whose policy api admits two requests a day of a client key.
const limited = "redis_ratelimit {header.X-Key} 2 24h {\nname api\n}\n" + showDecision

// startLimited starts a node on a Redis, with a client that was denied once.
func startLimited(t *testing.T, server *redistest.Server) *node {
	t.Helper()
	n := start(t, config("redis_ratelimit {\nredis redis://"+server.Addr+"\n}", limited))
	waitForRedis(t, n, "/")
	for range 3 {
		n.get(t, "/", "X-Key: greedy")
	}
	return n
}

func TestCommands_stateAndReset(t *testing.T) {
	server := redistest.Start(t)
	n := startLimited(t, server)
	n.ratelimit(t, "policies").want(t, 0, "redis standalone "+server.Addr+": decides in", "breaker closed",
		"NAME", "api   sliding_window_counter      2    24 h")
	state := []string{"state", "--policy", "api", "--key", "greedy"}
	n.ratelimit(t, state...).want(t, 0, "remaining    0\n", "retry after  in ", "source       redis", "rl:{greedy}:api:c1d  string", "units=2")
	n.ratelimit(t, "top").want(t, 0, "on this node", "DENIED  ±ERROR  POLICY  KEY", "     1      ±0  api     greedy")
	n.ratelimit(t, "top", "--policy", "api", "-n", "1", "--json").parse(t)
	explain := []string{"explain", "--url", n.URL + "/", "--client-ip", "203.0.113.7", "--header", "X-Key: greedy"}
	n.ratelimit(t, explain...).want(t, 4, ": denied\n", "POLICY", "api     greedy  denied         1   0/2  ")
	n.ratelimit(t, "reset", "--policy", "api", "--key", "greedy").want(t, 0, "1 quota reset")
	n.ratelimit(t, explain...).want(t, 0, ": allowed\n", "api     greedy  allowed        1   2/2    now    now  redis")
	n.get(t, "/", "X-Key: greedy")
	n.ratelimit(t, "reset", "--policy", "api", "--all", "--json").want(t, 0, `{"deleted":`)
	n.ratelimit(t, state...).want(t, 0, "remaining    2\n", "reset after  now")
}

func TestCommands_json(t *testing.T) {
	n := startLimited(t, redistest.Start(t))
	for _, args := range [][]string{
		{"policies"}, {"top"}, {"state", "--policy", "api", "--key", "greedy"}, {"explain", "--url", n.URL},
		{"reset", "--policy", "api", "--key", "unknown"},
	} {
		n.ratelimit(t, append(args, "--json")...).parse(t)
	}
	came := n.send(t, "POST", n.Admin+"/redis_ratelimit/reset", `{"policy":"api","key":"unknown"}`, "Content-Type: application/json")
	n.ratelimit(t, "reset", "--policy", "api", "--key", "unknown", "--json").want(t, 0, came.body)
	e := n.ratelimit(t, "state", "--policy", "none", "--key", "k", "--json")
	e.want(t, 2, "none")
	if answer := e.parse(t); answer["error"] == "" {
		t.Errorf("got %v; want the error of the admin API", e)
	}
}

func TestCommands_exitCode2(t *testing.T) {
	n := startLimited(t, redistest.Start(t))
	for _, args := range [][]string{
		{"state", "--policy", "none", "--key", "k"}, {"reset", "--policy", "none", "--all"}, {"top", "--policy", "none"},
		{"state", "--policy", "api", "--key", `\x`}, {"top", "-n", "0"}, {"explain", "--url", "/", "--client-ip", "unknown"},
	} {
		e := n.ratelimit(t, args...)
		e.want(t, 2, "Error: ")
		if e.stdout != "" || strings.Count(e.stderr, "\n") != 1 {
			t.Errorf("%v: got %v; want one line", args, e)
		}
	}
}

func TestCommands_exitCode1(t *testing.T) {
	nowhere := redistest.FreeAddr(t)
	ratelimit(t, nil, "policies", "--address", nowhere).want(t, 1, "no Caddy answers at the admin address "+nowhere, "--address")
	n := start(t, config("", "respond ok"))
	n.ratelimit(t, "policies").want(t, 1, "the running configuration has no redis_ratelimit")
	site := strings.TrimPrefix(n.URL, "http://")
	ratelimit(t, nil, "policies", "--address", site).want(t, 1, "has no endpoint /redis_ratelimit/policies")
	for _, args := range [][]string{
		{"state", "--policy", "api"}, {"reset", "--policy", "api"}, {"explain"}, {"top", "--watch=soon"}, {"policies", "surplus"},
		{"explain", "--url", "/", "--header", "no colon"}, {"policies", "--config", "missing"}, {"bogus"}, {"--json", "bogus"},
	} {
		e := ratelimit(t, nil, args...)
		if e.code != 1 || e.stdout != "" || !strings.Contains(e.stderr, "Error: ") {
			t.Errorf("%v: got %v", args, e)
		}
	}
}

func TestCommands_unknown(t *testing.T) {
	ratelimit(t, nil, "bogus").want(t, 1, `unknown command "bogus" for "caddy redis-ratelimit"`)
	ratelimit(t, nil, "polices").want(t, 1, "did you mean policies?")
	ratelimit(t, nil).want(t, 0, "Available Commands:")
}

func TestCommands_invalidUTF8(t *testing.T) {
	n := start(t, config("", limited))
	key, header := "caf\xe9", "X-Key: caf\xe9"
	n.get(t, "/", header)
	for _, command := range []string{"state", "reset"} {
		n.ratelimit(t, command, "--policy", "api", "--key", key).want(t, 1, `\xNN`)
		n.ratelimit(t, command, "--policy", "api", "--key", `caf\xe9`).want(t, 0)
	}
	n.ratelimit(t, "explain", "--url", n.URL, "--header", header).want(t, 1, "--header", "no UTF-8")
	n.ratelimit(t, "explain", "--url", n.URL+"/"+key).want(t, 1, "%NN")
}

func TestCommands_exitCode4(t *testing.T) {
	n := start(t, config("", "redis_ratelimit {header.X-Key} 1 24h {\non_empty_key reject\n}\n"+showDecision))
	explain := []string{"explain", "--url", n.URL, "--header"}
	n.ratelimit(t, append(explain, "X-Key: k")...).want(t, 0, ": allowed\n")
	n.ratelimit(t, append(explain, "X-Other: k")...).want(t, 4, ": rejected\n")
	n.get(t, "/", "X-Key: k")
	n.ratelimit(t, append(explain, "X-Key: k")...).want(t, 4, ": denied\n")
}

func TestCommands_adminEndpoint(t *testing.T) {
	n := start(t, config("", limited))
	file := writeCaddyfile(t, "{\n\tadmin "+strings.TrimPrefix(n.Admin, "http://")+"\n}\n")
	e := ratelimit(t, nil, "policies", "--config", file)
	if e.want(t, 0, "memory of this process: 0 of at most 1,000,000 keys", "api"); e.stderr != "" {
		t.Errorf("got %v; want nothing of what Caddy logs about reading the file", e)
	}
}

func TestCommands_redisDown(t *testing.T) {
	server := redistest.Start(t)
	n := startLimited(t, server)
	server.Kill()
	state := []string{"state", "--policy", "api", "--key", "greedy"}
	e := n.ratelimit(t, state...)
	e.want(t, 3, "Error: Redis cannot be asked: ", "limit        2\n", "source       fallback")
	if !strings.HasPrefix(e.stderr, "Error: ") || strings.Contains(e.stdout, "Error") {
		t.Errorf("got %v; want the error on stderr", e)
	}
	answer := n.ratelimit(t, append(state, "--json")...)
	answer.want(t, 3)
	if answer.parse(t)["source"] != "fallback" {
		t.Errorf("got %v", answer)
	}
	n.ratelimit(t, "reset", "--policy", "api", "--all").want(t, 3, "on this node alone")
	n.ratelimit(t, "explain", "--url", n.URL, "--client-ip", "203.0.113.7", "--header", "X-Key: other").want(t, 3, "fallback")
	n.ratelimit(t, "policies").want(t, 0, "does not decide", "handlers do local")
	n.ratelimit(t, "top").want(t, 0, "greedy")
}

func TestCommands_completion(t *testing.T) {
	n := start(t, config("", limited))
	asks := func(args ...string) string {
		output, err := command(t, nil, append([]string{"__completeNoDesc", "redis-ratelimit"}, args...)...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return output
	}
	address := strings.TrimPrefix(n.Admin, "http://")
	if got := asks("state", "--address", address, "--policy", "a"); !strings.HasPrefix(got, "api\n:4\n") {
		t.Errorf("got %q", got)
	}
	if got := asks("top", "--address", redistest.FreeAddr(t), "--policy", ""); !strings.HasPrefix(got, ":4\n") {
		t.Errorf("got %q; want nothing where no Caddy answers", got)
	}
	for _, name := range []string{"check", "explain", "policies", "reset", "state", "top"} {
		if got := asks(""); !strings.Contains("\n"+got, "\n"+name+"\n") {
			t.Errorf("got %q; want %s among them", got, name)
		}
	}
	if got, err := command(t, nil, "completion", "bash"); err != nil || !strings.Contains(got, "_caddy_redis-ratelimit_top") {
		t.Errorf("error %v, got %q", err, got)
	}
}

func TestCommands_help_fits_80_columns(t *testing.T) {
	for _, args := range [][]string{{"policies"}, {"state"}, {"reset"}, {"top"}, {"explain"}, {"check"}} {
		e := ratelimit(t, nil, append(args, "--help")...)
		e.want(t, 0, "Examples:")
		for line := range strings.Lines(e.stdout) {
			if len([]rune(line)) > 81 && !strings.HasPrefix(line, "Use ") { // cobra's line
				t.Errorf("%v: too long: %s", args, line)
			}
		}
	}
}

func TestCommands_watch(t *testing.T) {
	n := startLimited(t, redistest.Start(t))
	var stdout logBuffer
	cmd := exec.Command(binary(t), "redis-ratelimit", "top", "--watch=10ms", "--address", strings.TrimPrefix(n.Admin, "http://"))
	cmd.Env, cmd.Stdout = environment(t), &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	redistest.WaitFor(t, "two tables were printed", func() error {
		if strings.Count(stdout.String(), "greedy\n\n") < 2 {
			return errors.New(stdout.String())
		}
		return nil
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v; want 0 when interrupted", err)
	}
}

// TestCommands_FullDisk prints the results of commands to a disk without room.
func TestCommands_FullDisk(t *testing.T) {
	n := start(t, config("", "redis_ratelimit same 3 24h"+showDecision))
	for _, args := range [][]string{
		{"policies"}, {"policies", "--json"}, {"top"}, {"top", "--watch"}, {"state", "--policy", "default", "--key", "same"},
		{"reset", "--policy", "default", "--key", "same"}, {"explain", "--url", "http://localhost/"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("there is no /dev/full")
		}
		var stderr bytes.Buffer
		cmd := exec.Command(binary(t), append(append([]string{"redis-ratelimit"}, args...), "--address", strings.TrimPrefix(n.Admin, "http://"))...)
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environment(t), t.TempDir(), full, &stderr
		overdue := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // it may have ended already
		err = cmd.Run()
		overdue.Stop()
		_ = full.Close() // nothing was written
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v: got %v, %s; want exit code 1 and the reason", args, err, stderr.String())
		}
	}
}
