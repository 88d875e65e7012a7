package docs

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// goProgram finds the programs of docs/go.md.
var goProgram = regexp.MustCompile("\n```go\n(package main\n(?s:.*?)\n)```\n")

// goPrograms returns the programs of docs/go.md: in the process, and with Redis.
func goPrograms(t *testing.T) []string {
	t.Helper()
	var programs []string
	for _, block := range goProgram.FindAllStringSubmatch(caddytest.ReadFile(t, "docs/go.md"), -1) {
		programs = append(programs, block[1])
	}
	redistest.FatalIf(t, len(programs) != 2, "docs/go.md has %d programs, want 2", len(programs))
	return programs
}

// buildOutside builds a program in a module of its own, which requires this one as it is.
func buildOutside(t *testing.T, program string) (path string) {
	t.Helper()
	folder := t.TempDir()
	const module = "github.com/redis-ratelimit/caddy-redis-ratelimit"
	requirements := strings.Replace(caddytest.ReadFile(t, "go.mod"), "module "+module,
		"module example.com/program\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+caddytest.Path(t, "."), 1)
	for name, text := range map[string]string{"main.go": program, "go.mod": requirements, "go.sum": caddytest.ReadFile(t, "go.sum")} {
		redistest.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
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
	address := redistest.FreeAddr(t)
	command := exec.Command(path)
	command.Env = append(append(os.Environ(), "LISTEN="+address), env...)
	command.Stderr = os.Stderr
	redistest.Must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	redistest.WaitFor(t, "the program listens", func() error {
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
	response, err := http.DefaultClient.Do(request)
	redistest.Must(t, err)
	_ = response.Body.Close()
	return response.StatusCode
}

// TestGo_memory runs the program of docs/go.md without Redis.
func TestGo_memory(t *testing.T) {
	t.Parallel()
	program := goPrograms(t)[0]
	url := runProgram(t, buildOutside(t, program))
	for i, want := range []int{200, 200, 200, 429, 429} {
		if got := requestAs(t, url, "{alice}%"); got != want {
			t.Errorf("request %d: status %d, want %d", i, got, want)
		}
	}
	if got := requestAs(t, url, "bob"); got != 200 {
		t.Errorf("another client: status %d", got)
	}
}

// TestGo_shares_quotas_with_Caddy runs the program and the Caddyfile of docs/go.md on one Redis. Each
// client makes three requests, whichever of them it uses.
func TestGo_shares_quotas_with_Caddy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	page := wholeCaddyfile.FindStringSubmatch(caddytest.ReadFile(t, "docs/go.md"))
	redistest.FatalIf(t, page == nil, "docs/go.md has no Caddyfile")
	text := strings.Replace(strings.Replace(page[1], ":8080", "http://127.0.0.1:{$PORT}", 1), "{\n", "{\nadmin {$ADMIN}\n", 1)
	n := caddytest.Start(t, text, "REDIS_ADDR="+server.Addr)
	url := runProgram(t, buildOutside(t, goPrograms(t)[1]), "REDIS_ADDR="+server.Addr)
	for _, client := range []string{"alice", "100%", "}", "{b}", strings.Repeat("long ", 60), "Zoë|größe"} {
		for i, step := range []struct {
			url  string
			want int
		}{{n.URL, 200}, {url, 200}, {n.URL, 200}, {url, 429}, {n.URL, 429}} {
			if got := requestAs(t, step.url, client); got != step.want {
				t.Errorf("%q, request %d: status %d, want %d", client, i, got, step.want)
			}
		}
	}
	if states := server.Client(t).DBSize(t.Context()).Val(); states != 6 {
		t.Errorf("Redis has %d keys, want one for each of 6 clients", states)
	}
}
