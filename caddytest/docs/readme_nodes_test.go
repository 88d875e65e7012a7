package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestReadme_twoNodes plays the chapter on two nodes: its Caddyfile, on the ports that
// [caddytest.Start] gives, and its loops of curl, of which the second one is after Redis was stopped.
func TestReadme_twoNodes(t *testing.T) {
	t.Parallel()
	_, chapter, _ := strings.Cut(caddytest.ReadFile(t, "README.md"), "\n## Two nodes, one Redis\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	caddyfile := wholeCaddyfile.FindStringSubmatch(chapter)
	loops := regexp.MustCompile(`(?s)\$ for port in ([\d ]+); do curl.*?done\n(.*?)\n`+"```").FindAllStringSubmatch(chapter, -1)
	if caddyfile == nil || len(loops) != 2 {
		t.Fatalf("the chapter has the Caddyfile %q and the loops %q", caddyfile, loops)
	}
	server := redistest.Start(t)
	site := strings.NewReplacer("localhost:{$ADMIN_PORT:2019}", "{$ADMIN}", "127.0.0.1:6379", server.Addr).Replace(caddyfile[1])
	nodes := map[string]*caddytest.Node{"8081": caddytest.Start(t, site), "8082": caddytest.Start(t, site)}
	for _, n := range nodes {
		redistest.WaitFor(t, "the node is connected", func() error {
			if a := n.Get(t, "/"); !strings.HasSuffix(a.Body, "redis") {
				return fmt.Errorf("got %v", a)
			}
			return nil
		})
	}
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
		if said != loop[2]+"\n" {
			t.Errorf("%s\nthe README shows\n%s", said, loop[2])
		}
	}
}
