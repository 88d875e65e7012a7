package docs

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// This file makes a Caddyfile of labels as caddy-docker-proxy does: a label is a path of directives, of which a number in
// front gives the order, and one at the end tells equal names apart; its value, a template, has the arguments.

type labelBlock struct {
	order    int
	words    string
	children map[string]*labelBlock
}

var labelStep = regexp.MustCompile(`^(?:(\d+)_)?(.+?)(?:_\d+)?$`)

// add adds a label below a block.
func (b *labelBlock) add(steps []string, words string) {
	if len(steps) == 0 {
		b.words = strings.TrimSpace(b.words + " " + words)
		return
	}
	child := b.children[steps[0]]
	if child == nil {
		step := labelStep.FindStringSubmatch(steps[0])
		child = &labelBlock{words: step[2], order: math.MaxInt, children: map[string]*labelBlock{}}
		if step[1] != "" {
			child.order, _ = strconv.Atoi(step[1])
		}
		b.children[steps[0]] = child
	}
	child.add(steps[1:], words)
}

// lines returns the Caddyfile of the blocks inside, each once.
func (b *labelBlock) lines(indent string) (lines []string) {
	inside := slices.SortedFunc(maps.Values(b.children), func(a, b *labelBlock) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.words, b.words))
	})
	for _, child := range inside {
		text := indent + child.words
		if len(child.children) > 0 {
			text += " {\n" + strings.Join(child.lines(indent+"\t"), "\n") + "\n" + indent + "}"
		}
		if !slices.Contains(lines, text) {
			lines = append(lines, text)
		}
	}
	return lines
}

// runningContainer is what templates of labels read of a container.
type runningContainer struct {
	Labels map[string]string

	upstream string
}

// sitesOf returns the sites of containers, of which equal ones are merged, as a Caddyfile.
func sitesOf(t *testing.T, containers []runningContainer) string {
	t.Helper()
	sites := map[string][]string{}
	for _, c := range containers {
		site := &labelBlock{children: map[string]*labelBlock{}}
		for label, value := range c.Labels {
			steps := strings.Split(label, ".")
			if steps[0] != "caddy" {
				continue
			}
			parsed := assert.NoError(template.New("").Funcs(template.FuncMap{"upstreams": func(int) string { return c.upstream }}).Parse(value))(t)
			var words strings.Builder
			assert.Must(t, parsed.Execute(&words, c))
			site.add(steps[1:], words.String())
		}
		for _, line := range site.lines("\t") {
			if !slices.Contains(sites[site.words], line) {
				sites[site.words] = append(sites[site.words], line)
			}
		}
	}
	var blocks []string
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		blocks = append(blocks, name+" {\n"+strings.Join(sites[name], "\n")+"\n}\n")
	}
	return strings.Join(blocks, "\n")
}

// TestLabels_compose runs the containers of deploy/docker-proxy: each service has a limit of its own, which its replicas
// share. The page has the labels of the file.
func TestLabels_compose(t *testing.T) {
	t.Parallel()
	file := readCompose(t, "deploy/docker-proxy/compose.yaml")
	page := caddytest.ReadFile(t, "docs/install.md")
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("upstream")) })
	var containers []runningContainer
	for _, name := range slices.Sorted(maps.Keys(file.Services)) {
		service := file.Services[name]
		if len(service.Labels) == 0 {
			continue
		}
		for label, value := range service.Labels {
			assert.ErrorIf(t, name == "shop" && !strings.Contains(strings.ReplaceAll(page, `"`, ""), label+": "+strings.ReplaceAll(value, `"`, "")), "docs/install.md lacks the label %s: %s", label, value)
		}
		service.Labels["com.docker.compose.service"] = name
		for range max(1, service.Deploy.Replicas) {
			containers = append(containers, runningContainer{service.Labels, upstream})
		}
	}
	assert.FatalIf(t, len(containers) != 3, "want three containers: %+v", containers)
	text := withoutContainer(caddytest.ReadFile(t, "deploy/docker-proxy/conf/Caddyfile"), startContainerRedis(t, file.Services["redis"].Command[1:]))
	for _, problem := range redisProblems(file.Services["redis"].Command, "${REDIS_PASSWORD:?write it to .env}") {
		t.Error(problem)
	}
	sites := strings.NewReplacer("http://shop.localhost", "http://localhost:{$PORT}", "http://api.localhost", "http://127.0.0.1:{$PORT}").Replace(sitesOf(t, containers))
	n := caddytest.Start(t, text+"\n"+sites, "REDIS_PASSWORD="+containerPassword)
	for left := int64(99); left > 97; left-- {
		caddytest.CheckQuota(t, n.Get(t, "/").Want(t, http.StatusOK, "upstream"), 100, left)
		caddytest.CheckQuota(t, n.Send(t, http.MethodGet, n.LocalhostURL(), ""), 100, left)
	}
	n.Send(t, http.MethodGet, n.Admin+"/redis_ratelimit/policies", "").Want(t, http.StatusOK, `*"api"*"shop"*`)
}

// TestLabels_rollingUpdate has an old and a new container that bring a limit by their own labels. The site is refused, with
// both places and what to write instead.
func TestLabels_rollingUpdate(t *testing.T) {
	t.Parallel()
	labels := func(limit string) runningContainer {
		return runningContainer{map[string]string{"caddy": "http://shop.localhost", "caddy.redis_ratelimit": limit, "caddy.redis_ratelimit.name": "web"}, ""}
	}
	one, other := labels("{client_ip} 5 1m"), labels("{client_ip} 9 1m")
	caddytest.CheckCaddyfile(t, sitesOf(t, []runningContainer{one, one}), nil)
	text := sitesOf(t, []runningContainer{one, other})
	e := caddytest.Run{}.Caddy(t, "adapt", "--config", caddytest.WriteCaddyfile(t, text))
	for _, part := range []string{"limit 5", "Caddyfile:2 and", "limit 9", "Caddyfile:5;", "import it by label"} {
		assert.ErrorIf(t, !strings.Contains(e.Stderr, part), "got %v, want %q for\n%s", e, part, text)
	}
}

// TestLabels_options makes what docs/install.md says of numbers in labels.
func TestLabels_options(t *testing.T) {
	t.Parallel()
	text := sitesOf(t, []runningContainer{{map[string]string{
		"caddy":                              "http://shop.localhost",
		"caddy.@login.path":                  "/login",
		"caddy.@login.header":                "Authorization *",
		"caddy.redis_ratelimit_0":            "@login {client_ip} 3 15m",
		"caddy.redis_ratelimit_0.name":       "login",
		"caddy.redis_ratelimit_0.count_if":   "status 401 403",
		"caddy.redis_ratelimit_1":            "{client_ip} 100 1m",
		"caddy.redis_ratelimit_1.name":       "web",
		"caddy.route.0_basic_auth.alice":     "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG",
		"caddy.route.1_redis_ratelimit":      "{http.auth.user.id} 9 1h",
		"caddy.route.1_redis_ratelimit.name": "users",
	}, ""}})
	caddytest.CheckCaddyfile(t, text, nil)
	first, second := strings.Index(text, "basic_auth"), strings.Index(text, "redis_ratelimit {http.auth.user.id}")
	assert.ErrorIf(t, first < 0 || second < first || strings.Count(text, "\tredis_ratelimit ") != 3, "got\n%s", text)
}
