package command

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// alone are the commands that ask no admin endpoint.
var alone = map[string]bool{"check": true, "replay": true, "try": true, "help": true, "completion": true}

// neededFlags are flags without which a command asks nothing.
var neededFlags = map[string]string{
	"state": "--policy p --key k", "reset": "--policy p --all", "override": "--policy p --key k --block", "explain": "--url /",
}

// TestCommands_ask_their_endpoints runs each command against an admin endpoint that notes what is asked: one question, at
// the endpoint of the command's name. Each endpoint has a command.
func TestCommands_ask_their_endpoints(t *testing.T) {
	var asked recorder
	admin := httptest.NewServer(&asked)
	t.Cleanup(admin.Close)
	address := strings.TrimPrefix(admin.URL, "http://")
	routes := map[string]adminapi.Route{}
	for _, r := range adminapi.Routes() {
		routes[r.Name] = r
	}
	for _, sub := range rootCommand(t).Commands() {
		name := sub.Name()
		if alone[name] {
			continue
		}
		asked.take()
		if name == "page" { // which serves until it is interrupted
			e := assert.NoError(newEndpoint(address, nil))(t)
			_, _, err := e.askPage(context.Background(), "")
			assert.Must(t, err)
		} else {
			root := rootCommand(t)
			root.SetArgs(append([]string{name, "--address", address}, strings.Fields(neededFlags[name])...))
			assert.Must(t, root.Execute())
		}
		r, listed := routes[name]
		assert.ErrorIf(t, !listed, "command %s is of no endpoint", name)
		assert.Equal(t, asked.take(), r.Method+" "+r.Path(), "what command %s asks", name)
		delete(routes, name)
	}
	assert.ErrorIf(t, len(routes) > 0, "no command asks %v", routes)
}

// rootCommand is the command with its subcommands, which prints nothing.
func rootCommand(t *testing.T) *cobra.Command {
	t.Helper()
	root := &cobra.Command{Use: "redis-ratelimit"}
	Host{}.setUp(root)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root
}

// recorder answers as an admin endpoint without anything to tell, and notes what it is asked.
type recorder struct {
	mu    sync.Mutex
	asked []string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, request.Method+" "+request.URL.Path)
	_, _ = io.WriteString(w, "{}") // the command may be gone
}

// take returns what was asked since the last time.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := strings.Join(r.asked, ", ")
	r.asked = nil
	return asked
}
