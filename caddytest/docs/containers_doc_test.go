package docs

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file compares the names of deploy/compose with one another and with the commands of docs/install.md, and runs the
// nodes without containers.

var (
	containerExec  = regexp.MustCompile(`docker compose exec (\S+) caddy [^\x60\n]*--config ([^\s\x60]+)`)
	containerPorts = regexp.MustCompile(`for port in ([\d ]+); do curl`)
	redisPlace     = regexp.MustCompile(`redis redis://\S*@([\w.-]+):(\d+)`)
)

// compose is the part of a compose file that this module's use.
type compose struct {
	Services map[string]composeService
}

type composeService struct {
	Image       string
	Environment map[string]string
	Command     []string
	Ports       []string
	Volumes     []string
	Labels      map[string]string
	Deploy      struct{ Replicas int }
	Healthcheck struct{ Test []string }
	StopGrace   string `yaml:"stop_grace_period"`
}

func readCompose(t *testing.T, file string) (c compose) {
	t.Helper()
	assert.Must(t, yaml.Unmarshal([]byte(caddytest.ReadFile(t, file)), &c))
	return c
}

// twoNodes are the files of deploy/compose, and the page that tells of them.
type twoNodes struct {
	compose
	caddyfile, page string
}

func readTwoNodes(t *testing.T) twoNodes {
	t.Helper()
	return twoNodes{
		readCompose(t, "deploy/compose/compose.yaml"), caddytest.ReadFile(t, "deploy/compose/conf/Caddyfile"),
		caddytest.ReadFile(t, "docs/install.md"),
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	nodes := readTwoNodes(t)
	for _, problem := range nodes.problems() {
		t.Error(problem)
	}
	for name, service := range nodes.Services {
		if strings.HasPrefix(name, "caddy") {
			checkStop(t, nodes.caddyfile, assert.NoError(time.ParseDuration(service.StopGrace))(t))
		}
		assert.ErrorIf(t, len(service.Healthcheck.Test) == 0, "service %s has no health check", name)
	}
	caddytest.CheckCaddyfile(t, nodes.caddyfile, variables(nodes.caddyfile))
}

// redisProblems returns where a Redis lacks a password or may evict counts.
func redisProblems(options []string, password string) (problems []string) {
	for option, want := range map[string]string{"--requirepass": password, "--maxmemory-policy": "noeviction"} {
		if i := slices.Index(options, option); want == "" || i < 0 || i+1 == len(options) || options[i+1] != want {
			problems = append(problems, fmt.Sprintf("want Redis to run with %s %s: %q", option, want, options))
		}
	}
	return problems
}

// problems returns where the compose file, its Caddyfile and the commands of the page disagree.
func (n *twoNodes) problems() (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	place := redisPlace.FindStringSubmatch(n.caddyfile)
	if len(place) != 3 || place[2] != "6379" {
		return append(problems, "the Caddyfile has no Redis on port 6379")
	}
	redis, found := n.Services[place[1]]
	if !found || !strings.HasPrefix(redis.Image, "redis:") || len(redis.Ports) > 0 {
		add("want service %s to be a Redis without published ports: %+v", place[1], redis)
	}
	problems = append(problems, redisProblems(redis.Command, redis.Environment["REDISCLI_AUTH"])...)
	published := []string{}
	for name, service := range n.Services {
		if name == place[1] {
			continue
		}
		for _, port := range service.Ports {
			host, container, _ := strings.Cut(port, ":")
			if published = append(published, host); !strings.Contains(n.caddyfile, "\n:"+container+" {\n") {
				add("service %s publishes port %s, which is no site of the Caddyfile", name, container)
			}
		}
		problems = append(problems, variableProblems(name, service.Environment, redis.Environment["REDISCLI_AUTH"], n.caddyfile)...)
	}
	slices.Sort(published)
	asked := containerPorts.FindStringSubmatch(n.page)
	if len(asked) != 2 || !slices.Equal(slices.Compact(slices.Sorted(slices.Values(strings.Fields(asked[1])))), published) {
		add("the page uses ports %q, %v are published", asked, published)
	}
	return append(problems, n.commandProblems()...)
}

// checkStop checks that Caddy has ended by itself before it is killed.
func checkStop(t *testing.T, caddyfile string, killedAfter time.Duration) {
	t.Helper()
	sum := killsSlack
	for _, option := range []string{"shutdown_delay", "grace_period"} {
		_, after, found := strings.Cut(caddyfile, "\t"+option+" ")
		assert.FatalIf(t, !found, "the Caddyfile has no %s", option)
		text, _, _ := strings.Cut(after, "\n")
		sum += assert.NoError(time.ParseDuration(text))(t)
	}
	assert.ErrorIf(t, killedAfter < sum, "Caddy is killed after %v, and needs up to %v", killedAfter, sum)
}

// killsSlack is what Caddy may need besides its delay and its grace period.
const killsSlack = 3 * time.Second

// variableProblems checks that a node has the Caddyfile's variables, with the value that Redis has.
func variableProblems(name string, environment map[string]string, password, caddyfile string) (problems []string) {
	for _, match := range usedVariable.FindAllStringSubmatch(caddyfile, -1) {
		if value := environment[match[1]+match[2]]; value == "" || value != password {
			problems = append(problems, fmt.Sprintf("%s has %q for the Caddyfile's variable %s", name, value, match[1]+match[2]))
		}
	}
	return problems
}

// commandProblems checks the services and paths of the page's commands.
func (n *twoNodes) commandProblems() (problems []string) {
	commands := containerExec.FindAllStringSubmatch(n.page, -1)
	if len(commands) == 0 {
		problems = append(problems, "the page has no docker compose exec")
	}
	for _, match := range commands {
		mounted := "./conf:" + path.Dir(match[2]) + ":ro"
		if service, found := n.Services[match[1]]; !found || !slices.Contains(service.Volumes, mounted) || path.Base(match[2]) != "Caddyfile" {
			problems = append(problems, fmt.Sprintf("%q: want a service with the volume %s", match[0], mounted))
		}
	}
	return problems
}

// containerPassword is the password of a Redis in a test, in place of a variable.
const containerPassword = "dRw7Xq2Lm9"

// startContainerRedis starts the Redis of a container by its options, without the container.
func startContainerRedis(t *testing.T, options []string) *redistest.Server {
	t.Helper()
	options = slices.Clone(options)
	for i, option := range options {
		if strings.Contains(option, "REDIS_PASSWORD") {
			options[i] = containerPassword
		}
	}
	return redistest.Start(t, options...)
}

// withoutContainer puts the addresses of a test into the Caddyfile of a container.
func withoutContainer(caddyfile string, server *redistest.Server) string {
	return strings.NewReplacer("@redis:6379", "@"+server.Addr, "\n:8080 {", "\n:{$PORT} {",
		" 5 1m", " 5 24h", " 100 1m", " 100 24h", // no minute ends between the requests
		"\tshutdown_delay 5s\n\tgrace_period 20s\n", "",
		"\tredis_ratelimit {\n\t\tredis", "\tadmin {$ADMIN}\n\tgrace_period 1s\n\tauto_https off\n\tredis_ratelimit {\n\t\ttimeout 10s\n\t\tredis").Replace(caddyfile)
}

// TestCompose_nodes runs the Redis and the nodes of the compose file. Both nodes use one quota.
func TestCompose_nodes(t *testing.T) {
	t.Parallel()
	files := readTwoNodes(t)
	site := withoutContainer(files.caddyfile, startContainerRedis(t, files.Services["redis"].Command[1:]))
	nodes := map[string]*caddytest.Node{}
	ports := strings.Fields(containerPorts.FindStringSubmatch(files.page)[1])
	for i, port := range ports {
		if nodes[port] == nil {
			nodes[port] = caddytest.Start(t, site, "REDIS_PASSWORD="+containerPassword)
		}
		a := nodes[port].Get(t, "/")
		if i == len(ports)-1 {
			assert.ErrorIf(t, a.Status != http.StatusTooManyRequests, "request %d on %s: got %v, want it denied", i+1, port, a)
		} else if want := fmt.Sprintf("%d left, says redis", len(ports)-2-i); a.Body != want {
			t.Errorf("request %d on %s: got %v, want %q", i+1, port, a, want)
		}
	}
}
