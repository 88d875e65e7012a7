package docs

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// example returns Caddyfile.example on the ports that [caddytest.Start] sets.
func example(t *testing.T) string {
	t.Helper()
	text := caddytest.ReadFile(t, "Caddyfile.example")
	for _, port := range []string{"admin localhost:2019", "\n:8080 {"} {
		redistest.FatalIf(t, !strings.Contains(text, port), "Caddyfile.example has no %q, which this test replaces", port)
	}
	return strings.NewReplacer("admin localhost:2019", "admin {$ADMIN}", "\n:8080 {", "\n:{$PORT} {").Replace(text)
}

func TestQuickStart_searches(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, example(t))
	for i := range 3 {
		a := n.Get(t, "/search")
		caddytest.CheckQuota(t, a, 3, int64(2-i))
		if want := "Hello. " + strconv.Itoa(2-i) + " of 3 left.\n"; a.Status != http.StatusOK || a.Body != want {
			t.Errorf("search %d: %v; want 200 and %q", i+1, a, want)
		}
	}
	a := n.Get(t, "/search")
	caddytest.CheckQuota(t, a, 3, 0)
	caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 6 {
		t.Errorf("Retry-After: %q; a search comes back within 6 seconds", a.Header.Get("Retry-After"))
	}
	var seconds float64
	if _, err := fmt.Sscanf(a.Body, "429 Too Many Requests: policy search, retry in %f s.\n", &seconds); err != nil || seconds <= 0 || seconds > 6 {
		t.Errorf("the error page says %q (%v)", a.Body, err)
	}
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
			redistest.ErrorIf(t, !strings.Contains(a.Body, "policy default, retry in"), "the error page says %q", a.Body)
		default:
			t.Fatalf("got %v", a)
		}
	}
	if most := 100 + 2 + int(time.Since(begin)*100/time.Minute); admitted < 100 || admitted > most {
		t.Errorf("%d requests passed in %v, want 100 to %d", admitted, time.Since(begin), most)
	}
}

// TestReadme_twoNodes plays the chapter on two nodes: its Caddyfile, on the ports that
// [caddytest.Start] gives, and its loops of curl, of which the second one is after Redis was stopped.
func TestReadme_twoNodes(t *testing.T) {
	t.Parallel()
	_, chapter, _ := strings.Cut(caddytest.ReadFile(t, "README.md"), "\n## Two nodes, one Redis\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	caddyfile := wholeCaddyfile.FindStringSubmatch(chapter)
	loops := regexp.MustCompile(`(?s)\$ for port in ([\d ]+); do curl.*?done\n(.*?)\n`+"```").FindAllStringSubmatch(chapter, -1)
	redistest.FatalIf(t, caddyfile == nil || len(loops) != 2, "the chapter has the Caddyfile %q and the loops %q", caddyfile, loops)
	server := redistest.Start(t)
	site := strings.NewReplacer("localhost:{$ADMIN_PORT:2019}", "{$ADMIN}", "127.0.0.1:6379", server.Addr).Replace(caddyfile[1])
	nodes := map[string]*caddytest.Node{"8081": caddytest.Start(t, site), "8082": caddytest.Start(t, site)}
	for _, n := range nodes {
		n.Await(t, "/", 0, "*redis")
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
