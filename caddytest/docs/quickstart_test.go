package docs

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// example returns Caddyfile.example on the ports that [caddytest.Start] sets.
func example(t *testing.T) string {
	t.Helper()
	text := caddytest.ReadFile(t, "Caddyfile.example")
	for _, port := range []string{"admin localhost:2019", "\n:8080 {"} {
		assert.FatalIf(t, !strings.Contains(text, port), "Caddyfile.example has no %q, which this test replaces", port)
	}
	return strings.NewReplacer("admin localhost:2019", "admin {$ADMIN}", "\n:8080 {", "\n:{$PORT} {").Replace(text)
}

func TestQuickStart_all(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, example(t))
	begin := time.Now()
	admitted := 0
	for range 120 {
		switch a := n.Get(t, "/"); a.Status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
			caddytest.CheckQuota(t, a, 100, 0)
			caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
			assert.ErrorIf(t, !strings.Contains(a.Body, "policy default, retry in"), "the error page says %q", a.Body)
		default:
			t.Fatalf("got %v", a)
		}
	}
	most := 100 + 2 + int(time.Since(begin)*100/time.Minute)
	assert.ErrorIf(t, admitted < 100 || admitted > most, "%d requests passed in %v, want 100 to %d", admitted, time.Since(begin), most)
}

// TestReadme_twoNodes plays the chapter on two nodes: its Caddyfile, on the ports that
// [caddytest.Start] gives, and its loops of curl, of which the second one is after Redis was stopped.
func TestReadme_twoNodes(t *testing.T) {
	t.Parallel()
	_, chapter, _ := strings.Cut(caddytest.ReadFile(t, "README.md"), "\n## Two nodes, one Redis\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	caddyfile := wholeCaddyfile.FindStringSubmatch(chapter)
	loops := regexp.MustCompile(`(?s)\$ for port in ([\d ]+); do curl.*?done\n(.*?)\n`+"```").FindAllStringSubmatch(chapter, -1)
	assert.FatalIf(t, caddyfile == nil || len(loops) != 2, "the chapter has the Caddyfile %q and the loops %q", caddyfile, loops)
	server := redistest.Start(t)
	redis := server.Addr + "\n\t\ttimeout 10s"
	site := strings.NewReplacer("localhost:{$ADMIN_PORT:2019}", "{$ADMIN}", "127.0.0.1:6379", redis).Replace(caddyfile[1])
	began := time.Now()
	nodes := map[string]*caddytest.Node{"8081": caddytest.Start(t, site), "8082": caddytest.Start(t, site)}
	for _, n := range nodes {
		n.Await(t, "/", 0, "*redis")
	}
	awayFromMinute(time.Since(began)) // the window is one
	server.Client(t).FlushAll(t.Context())
	for i, loop := range loops {
		if i == 1 {
			server.Kill()
		}
		said := ""
		for port := range strings.FieldsSeq(loop[1]) {
			a := nodes[port].Get(t, "/")
			said += fmt.Sprintf("%s  %d\n", a.Body, a.Status)
		}
		wait := regexp.MustCompile(`in [^.]+\.`)
		assert.Equal(t, wait.ReplaceAllString(said, "in a while."), wait.ReplaceAllString(loop[2], "in a while.")+"\n", "what the nodes answer")
	}
}

// goProgram finds the program of docs/go.md, goRedis the lines with Redis in place of one of its lines.
var (
	goProgram = regexp.MustCompile("\n```go\n(package main\n(?s:.*?)\n)```\n")
	goRedis   = regexp.MustCompile("\nIn place of the line `(.*)`:\n\n```go\n((?s:.*?)\n)```\n")
)

// goPrograms returns the programs of docs/go.md: in the process, and with Redis.
func goPrograms(t *testing.T) []string {
	t.Helper()
	page := caddytest.ReadFile(t, "docs/go.md")
	program, lines := goProgram.FindStringSubmatch(page), goRedis.FindStringSubmatch(page)
	assert.FatalIf(t, program == nil || lines == nil || strings.Count(program[1], "\t"+lines[1]+"\n") != 1, "docs/go.md has not the two programs")
	const first, limiter = "import (\n", "github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/"
	imports := first
	for _, path := range []string{"github.com/redis/go-redis/v9/logging", limiter + "failover", limiter + "redis", limiter + "redis/dial"} {
		imports += "\t\"" + path + "\"\n"
	}
	return []string{program[1], strings.NewReplacer(first, imports, "\t"+lines[1]+"\n", lines[2]).Replace(program[1])}
}

// buildOutside builds a program in a module of its own, which requires this one as it is.
func buildOutside(t *testing.T, program string) (path string) {
	t.Helper()
	folder := t.TempDir()
	const module = "github.com/redis-ratelimit/caddy-redis-ratelimit"
	requirements := strings.Replace(caddytest.ReadFile(t, "go.mod"), "module "+module,
		"module example.com/program\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+caddytest.Path(t, "."), 1)
	for name, text := range map[string]string{"main.go": program, "go.mod": requirements, "go.sum": caddytest.ReadFile(t, "go.sum")} {
		assert.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	path = filepath.Join(folder, "program")
	// The flags of Caddy's build, so that both use the same cache.
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-mod=mod", "-o", path, ".")
	build.Dir = folder
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return path
}

// runProgram runs a program until the test's end and returns its URL.
func runProgram(t *testing.T, path string, env ...string) (url string) {
	t.Helper()
	return runProgramTo(t, os.Stderr, path, env...)
}

// runProgramTo runs a program that writes its errors to a file, until the test's end.
func runProgramTo(t *testing.T, errors *os.File, path string, env ...string) (url string) {
	t.Helper()
	address := redistest.FreeAddr(t)
	command := exec.Command(path)
	command.Env = append(append(os.Environ(), "LISTEN="+address), env...)
	command.Stderr = errors
	assert.Must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	assert.WaitFor(t, "the program listens", func() error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
	return "http://" + address
}

// requestAs sends a request of a client to a server and returns the response's status.
func requestAs(t *testing.T, url, client string) int {
	t.Helper()
	request := caddytest.GetRequest(t.Context(), t, url)
	request.Header.Set("X-Api-Key", client)
	response := assert.NoError(http.DefaultClient.Do(request))(t)
	_ = response.Body.Close()
	return response.StatusCode
}

// TestGo_memory runs the program of docs/go.md without Redis.
func TestGo_memory(t *testing.T) {
	t.Parallel()
	program := goPrograms(t)[0]
	url := runProgram(t, buildOutside(t, program))
	for i, want := range []int{200, 200, 200, 429, 429} {
		got := requestAs(t, url, "{alice}%")
		assert.ErrorIf(t, got != want, "request %d: status %d, want %d", i, got, want)
	}
	got := requestAs(t, url, "bob")
	assert.ErrorIf(t, got != 200, "another client: status %d", got)
}

// TestGo_says runs the programs of docs/go.md where another listens: they end with an error that names the address. With
// Redis gone the second one writes nothing: it silences go-redis's logger.
func TestGo_says(t *testing.T) {
	t.Parallel()
	taken := assert.NoError(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close() //nolint:errcheck // the test is over
	var second string
	for i, program := range goPrograms(t) {
		second = buildOutside(t, program)
		command := exec.CommandContext(t.Context(), second)
		command.Env = append(os.Environ(), "LISTEN="+taken.Addr().String(), "REDIS_ADDR="+taken.Addr().String())
		said, err := command.CombinedOutput()
		assert.ErrorIf(t, err == nil || !strings.Contains(string(said), taken.Addr().String()), "program %d: got %v, %q", i, err, said)
	}
	said := assert.NoError(os.Create(filepath.Join(t.TempDir(), "stderr")))(t)
	defer said.Close() //nolint:errcheck // the program writes by a descriptor of its own
	url := runProgramTo(t, said, second, "REDIS_ADDR="+redistest.FreeAddr(t))
	for i, want := range []int{200, 200, 200, 429} {
		got := requestAs(t, url, "alice")
		assert.ErrorIf(t, got != want, "request %d without Redis: status %d, want %d", i, got, want)
	}
	text := assert.NoError(os.ReadFile(said.Name()))(t)
	assert.ErrorIf(t, len(text) > 0, "without Redis the program says %q", text)
}

// TestGo_shares_quotas_with_Caddy runs the program and the Caddyfile of docs/go.md on one Redis, and with keys in the spelling
// that counts also without raw_key. Each client makes three requests, whichever of them it uses.
func TestGo_shares_quotas_with_Caddy(t *testing.T) {
	t.Parallel()
	page := wholeCaddyfile.FindStringSubmatch(caddytest.ReadFile(t, "docs/go.md"))
	assert.FatalIf(t, len(page) < 2 || strings.Count(page[1], "\t\traw_key\n") != 1, "docs/go.md has no Caddyfile with raw_key")
	text := strings.Replace(strings.Replace(page[1], ":8080", "http://127.0.0.1:{$PORT}", 1), "{\n", "{\nadmin {$ADMIN}\n", 1)
	text = strings.Replace(text, "\tredis_ratelimit {\n", "\tredis_ratelimit {\n\t\ttimeout 10s\n", 1) // only Redis decides
	const connected = `cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")}`
	shared := goPrograms(t)[1]
	assert.FatalIf(t, strings.Count(shared, connected) != 1, "the program connects otherwise")
	program := buildOutside(t, strings.Replace(shared, connected, connected+", Timeout: 10 * time.Second", 1))
	sent := func(client string) string { return client }
	for name, test := range map[string]struct {
		text    string
		program func(client string) string // what a client sends to the program
	}{"as sent": {text, sent}, "as it counts": {strings.Replace(text, "\t\traw_key\n", "", 1), strings.ToLower}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			n := caddytest.Start(t, test.text, "REDIS_ADDR="+server.Addr)
			url := runProgram(t, program, "REDIS_ADDR="+server.Addr)
			for _, client := range []string{"alice", "100%", "}", "{b}", strings.Repeat("long ", 60), "Zoë|größe"} {
				for i, step := range []struct {
					url  string
					as   func(client string) string
					want int
				}{{n.URL, sent, 200}, {url, test.program, 200}, {n.URL, sent, 200}, {url, test.program, 429}, {n.URL, sent, 429}} {
					got := requestAs(t, step.url, step.as(client))
					assert.ErrorIf(t, got != step.want, "%q, request %d: status %d, want %d", client, i, got, step.want)
				}
			}
			keys := server.Client(t).Keys(t.Context(), "*").Val()
			states := slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "rl:{%!") })
			assert.ErrorIf(t, len(states) != 6, "Redis has the keys %q, want one for each of 6 clients", states)
		})
	}
}
