package docs

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file compares the names of docs/install.md with one another.

var (
	installCompose   = regexp.MustCompile("\n```yaml\n((?s:.*?)\n)```\n")
	installCaddy     = regexp.MustCompile(`(?:xcaddy build v|FROM caddy:|\x60v)(2\.\d+\.\d+)`)
	installGo        = regexp.MustCompile(`needs Go (\S+)\. `)
	installWith      = regexp.MustCompile(`--with (github\.com/\S+)`)
	moduleDirectives = regexp.MustCompile(`(?m)^(?:(module|go) (\S+)|\t(github\.com/caddyserver/caddy/v2) v(\S+))$`)
)

// installPage is docs/install.md.
type installPage struct {
	text       string
	caddyfiles []string // of the compose file, then of systemd
	compose    compose
}

func readInstallPage(t *testing.T) installPage {
	t.Helper()
	page := installPage{text: caddytest.ReadFile(t, "docs/install.md")}
	for _, block := range wholeCaddyfile.FindAllStringSubmatch(page.text, -1) {
		page.caddyfiles = append(page.caddyfiles, block[1])
	}
	blocks := installCompose.FindAllStringSubmatch(page.text, -1)
	assert.FatalIf(t, len(page.caddyfiles) != 2 || len(blocks) != 1, "docs/install.md has %d Caddyfiles and %d compose files, want 2 and 1", len(page.caddyfiles), len(blocks))
	assert.Must(t, yaml.Unmarshal([]byte(blocks[0][1]), &page.compose))
	return page
}

// TestInstall_versions compares the page's Caddy, Go and module path with go.mod.
func TestInstall_versions(t *testing.T) {
	t.Parallel()
	text := caddytest.ReadFile(t, "go.mod")
	want := map[string]string{}
	for _, match := range moduleDirectives.FindAllStringSubmatch(text, -1) {
		want[match[1]+match[3]] = match[2] + match[4]
	}
	page := readInstallPage(t)
	for what, pattern := range map[string]*regexp.Regexp{
		"github.com/caddyserver/caddy/v2": installCaddy, "go": installGo, "module": installWith,
	} {
		found := pattern.FindAllStringSubmatch(page.text, -1)
		assert.ErrorIf(t, len(found) == 0, "docs/install.md names no %s", what)
		for _, match := range found {
			assert.ErrorIf(t, match[1] != want[what], "docs/install.md has %q, go.mod has %s %s", match[0], what, want[what])
		}
	}
}

func TestInstall_modules(t *testing.T) {
	t.Parallel()
	output := caddytest.Run{}.Caddy(t, "list-modules").Stdout
	want := ""
	for line := range strings.Lines(output) {
		if strings.Contains(line, "redis_ratelimit") {
			want += line
		}
	}
	page := readInstallPage(t)
	assert.ErrorIf(t, want == "" || !strings.Contains(page.text, "list-modules | grep redis_ratelimit\n"+want+"$ "), "docs/install.md does not list\n%s", want)
}

var (
	installExec  = regexp.MustCompile(`docker compose exec (\S+) caddy [^\x60\n]*--config ([^\s\x60]+)`)
	installPorts = regexp.MustCompile(`for port in ([\d ]+); do curl`)
	redisPlace   = regexp.MustCompile(`redis redis://\S*@([\w.-]+):(\d+)`)
)

// compose is the part of a compose file that this page uses.
type compose struct {
	Services map[string]composeService
}

type composeService struct {
	Image, Build string
	Environment  map[string]string
	Command      []string
	Ports        []string
	Volumes      []string
	Healthcheck  struct{ Test []string }
}

func TestInstall_compose(t *testing.T) {
	t.Parallel()
	page := readInstallPage(t)
	for _, problem := range composeProblems(page) {
		t.Error(problem)
	}
	for name, service := range page.compose.Services {
		assert.ErrorIf(t, len(service.Healthcheck.Test) == 0, "service %s has no health check", name)
	}
}

// composeProblems returns where the compose file, its Caddyfile and the commands of the page disagree.
func composeProblems(page installPage) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	place := redisPlace.FindStringSubmatch(page.caddyfiles[0])
	if len(place) != 3 || place[2] != "6379" {
		return append(problems, "the Caddyfile has no Redis on port 6379")
	}
	redis, found := page.compose.Services[place[1]]
	if !found || !strings.HasPrefix(redis.Image, "redis:") || len(redis.Ports) > 0 {
		add("want service %s to be a Redis without published ports: %+v", place[1], redis)
	}
	for option, want := range map[string]string{"--requirepass": redis.Environment["REDISCLI_AUTH"], "--maxmemory-policy": "noeviction"} {
		if i := slices.Index(redis.Command, option); want == "" || i < 0 || i+1 == len(redis.Command) || redis.Command[i+1] != want {
			add("want Redis to run with %s %s: %q", option, want, redis.Command)
		}
	}
	published := []string{}
	for name, service := range page.compose.Services {
		if name == place[1] {
			continue
		}
		for _, port := range service.Ports {
			host, container, _ := strings.Cut(port, ":")
			if published = append(published, host); !strings.Contains(page.caddyfiles[0], "\n:"+container+" {\n") {
				add("service %s publishes port %s, which is no site of the Caddyfile", name, container)
			}
		}
		problems = append(problems, variableProblems(name, service, redis, page.caddyfiles[0])...)
	}
	slices.Sort(published)
	for _, match := range installPorts.FindAllStringSubmatch(page.text, -1) {
		if asked := strings.Fields(match[1]); !slices.Equal(slices.Compact(slices.Sorted(slices.Values(asked))), published) {
			add("the page uses ports %v, %v are published", asked, published)
		}
	}
	return append(problems, commandProblems(page)...)
}

// variableProblems checks that a node has the Caddyfile's variables, with the value that Redis has.
func variableProblems(name string, service, redis composeService, caddyfile string) (problems []string) {
	for _, match := range usedVariable.FindAllStringSubmatch(caddyfile, -1) {
		value := service.Environment[match[1]+match[2]]
		if value == "" || value != redis.Environment["REDISCLI_AUTH"] {
			problems = append(problems, fmt.Sprintf("service %s has %q for the Caddyfile's variable %s", name, value, match[1]+match[2]))
		}
	}
	return problems
}

// commandProblems checks the services and paths of the page's commands.
func commandProblems(page installPage) (problems []string) {
	commands := installExec.FindAllStringSubmatch(page.text, -1)
	if len(commands) == 0 {
		problems = append(problems, "the page has no docker compose exec")
	}
	for _, match := range commands {
		mounted := "./conf:" + path.Dir(match[2]) + ":ro"
		if service, found := page.compose.Services[match[1]]; !found || !slices.Contains(service.Volumes, mounted) ||
			!strings.Contains(page.text, "`conf/"+path.Base(match[2])+"`") {
			problems = append(problems, fmt.Sprintf("%q: want a service with the volume %s", match[0], mounted))
		}
	}
	return problems
}

// TestInstall_composeNodes runs the Redis and the nodes of the compose file without containers. Both nodes
// use one quota.
func TestInstall_composeNodes(t *testing.T) {
	t.Parallel()
	page := readInstallPage(t)
	const password = "dRw7Xq2Lm9"
	options := slices.Clone(page.compose.Services["redis"].Command[1:])
	for i, option := range options {
		if strings.Contains(option, "${REDIS_PASSWORD") {
			options[i] = password
		}
	}
	server := redistest.Start(t, options...)
	site := strings.NewReplacer("@redis:6379", "@"+server.Addr, "\n:8080 {", "\n:{$PORT} {",
		" 5 1m", " 5 24h", // no minute ends between the requests
		"{\n\tredis_ratelimit {", "{\n\tadmin {$ADMIN}\n\tgrace_period 1s\n\tredis_ratelimit {\n\t\ttimeout 10s").Replace(page.caddyfiles[0])
	nodes := map[string]*caddytest.Node{}
	ports := strings.Fields(installPorts.FindStringSubmatch(page.text)[1])
	for i, port := range ports {
		if nodes[port] == nil {
			nodes[port] = caddytest.Start(t, site, "REDIS_PASSWORD="+password)
		}
		a := nodes[port].Get(t, "/")
		if i == len(ports)-1 {
			assert.ErrorIf(t, a.Status != http.StatusTooManyRequests, "request %d on %s: got %v, want it denied", i+1, port, a)
		} else if want := fmt.Sprintf("%d left, says redis", len(ports)-2-i); a.Body != want {
			t.Errorf("request %d on %s: got %v, want %q", i+1, port, a, want)
		}
	}
}
