package docs

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// jobs play the files of docs/start.md, by heading, as a visitor and as an attacker.
var jobs = map[string]func(t *testing.T, caddyfile string){
	"A WordPress log-in":           onBoth(jobLogIn),
	"An API with plans":            onBoth(jobPlans),
	"A gateway to language models": onBoth(jobGateway),
	"A site full of crawlers":      jobCrawlers,
	"Behind a CDN, with Sentinel":  jobCDN,
}

const mostLines = 25 // of a job's file, without blank ones

func onBoth(run func(*testing.T, recipeEnv)) func(*testing.T, string) {
	return func(t *testing.T, caddyfile string) {
		t.Helper()
		onRecipe(t, caddyfile, run)
	}
}

// TestStart plays each job's file, which is short.
func TestStart(t *testing.T) {
	t.Parallel()
	playSections(t, "docs/start.md", jobs, func(t *testing.T, job recipe, play func(*testing.T, string)) {
		t.Helper()
		lines := 0
		for line := range strings.Lines(job.caddyfiles[0]) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		assert.ErrorIf(t, lines > mostLines, "the file has %d lines, at most %d", lines, mostLines)
		checkTry(t, job)
		play(t, job.caddyfiles[0])
	})
}

// tryCommand finds a command try of the page, with the table that it prints.
var tryCommand = regexp.MustCompile(`(?s)\n\$ caddy redis-ratelimit (try [^\n]*)\n(POLICY.*?\n)(?:\$|` + "```)")

// checkTry has a job's file tried as the page says: there is no mistake, and the table is the page's.
func checkTry(t *testing.T, job recipe) {
	t.Helper()
	_, section, _ := strings.Cut(caddytest.ReadFile(t, "docs/start.md"), "\n## "+job.heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	shown := tryCommand.FindStringSubmatch(section)
	assert.FatalIf(t, shown == nil, "the page does not say how the file is tried")
	folder := t.TempDir()
	assert.Must(t, os.WriteFile(filepath.Join(folder, "Caddyfile"), []byte(job.caddyfiles[0]), 0o600))
	e := caddytest.Run{Folder: folder}.Ratelimit(t, shellWords(shown[1])...)
	e.Want(t, 0)
	table, _, _ := strings.Cut(e.Stdout, "\n\n")
	assert.Equal(t, table+"\n", shown[2], "what the command prints")
}

// TestReadme_example holds the first Caddyfile of README to the first job's.
func TestReadme_example(t *testing.T) {
	t.Parallel()
	readme, start := wholeCaddyfile.FindStringSubmatch(caddytest.ReadFile(t, "README.md")), wholeCaddyfile.FindStringSubmatch(caddytest.ReadFile(t, "docs/start.md"))
	assert.FatalIf(t, readme == nil || start == nil, "README.md or docs/start.md has no Caddyfile")
	assert.Equal(t, readme[1], start[1], "README's first Caddyfile")
}

// jobLogIn has a visitor log in often, and an attacker guess under every spelling that PHP takes for the log-in.
func jobLogIn(t *testing.T, e recipeEnv) {
	for range 8 {
		e.Get(t, "/wp-login.php").WantFree(t)
		e.tryForm(t, "/wp-login.php", "right", http.StatusFound)
	}
	e.WaitForRefund(t, "failed-logins", "127.0.0.1", 5)
	for _, form := range []string{"/wp-login.php", "//wp-login.php", "/wp-login.php/x.css", "/wp-login.php?action=login", "/%77p-login.php"} {
		e.tryForm(t, form, "guess", http.StatusOK)
	}
	for _, form := range []string{"/wp-login.php", "/./wp-login.php", "/wp-login.php/", "/WP-LOGIN.php", "/wp-login.php/y.css"} {
		e.tryForm(t, form, "guess", http.StatusTooManyRequests)
	}
	e.Send(t, "post", e.URL+"/wp-login.php", "password=guess", ofForm).Want(t, http.StatusTooManyRequests, caddytest.Any) // which some frameworks take for POST
	other := e.from("127.0.5.1")
	other.tryForm(t, "/wp-login.php", "right", http.StatusFound)
	xmlrpc := 0
	for _, door := range []string{"/xmlrpc.php", "/xmlrpc.php/x", "//xmlrpc.php"} {
		for range 5 {
			if other.Send(t, http.MethodPost, e.URL+door, "<methodCall/>", "Content-Type: text/xml").Status == http.StatusOK {
				xmlrpc++
			}
		}
	}
	assert.Equal(t, xmlrpc, 10, "requests to xmlrpc.php")
	for range 30 {
		other.Get(t, "/").WantFree(t)
	}
}

// jobPlans has customers use up their minute, and a stranger invent keys.
func jobPlans(t *testing.T, e recipeEnv) {
	const acme, bolt = "X-Api-Key: key-of-acme", "X-Api-Key: key-of-bolt"
	caddytest.CheckQuota(t, e.Get(t, "/orders", acme), 600, 599)
	passed, _ := e.spend(t, 60, 60*minutely, "/orders", bolt)
	quota := e.Get(t, "/quota", bolt).Want(t, http.StatusOK, `{"policies":[{"name":"minute","limit":60,*`).Body
	month := fmt.Sprintf(`"name":"month","limit":10000,"remaining":%d`, 10_000-passed)
	assert.ErrorIf(t, !strings.Contains(quota, month), "the quota is %s, want %s: what the minute refuses costs nothing of the month", quota, month)
	invented := 0
	for i := range 30 {
		switch a := e.Get(t, "/orders", fmt.Sprint("X-Api-Key: invented-", i)); a.Status {
		case http.StatusUnauthorized:
			invented++
		default:
			caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		}
	}
	assert.ErrorIf(t, invented < 20 || invented > 25, "%d invented keys were looked at, want 20", invented)
	e.Get(t, "/orders", acme, "X-Api-Key: invented").Want(t, http.StatusTooManyRequests, caddytest.Any) // two keys are none
	e.Get(t, "/orders", acme).Want(t, http.StatusOK, caddytest.Any)
	assert.Equal(t, len(e.backend.seen()), 2+passed, "requests that reached the application")
}

// jobGateway has a team spend its tokens, and strangers try keys.
func jobGateway(t *testing.T, e recipeEnv) {
	const search, support = "Authorization: Bearer key-of-search", "Authorization: Bearer key-of-support"
	a := e.ask(t, `{"max_tokens":95000}`, search, "Accept-Encoding: gzip").Want(t, http.StatusOK, caddytest.Any, "Content-Encoding:")
	caddytest.CheckQuota(t, a, 100_000, 5_000)
	e.WaitForRefund(t, "tokens", "search", 96_000)
	caddytest.CheckRefusal(t, e.ask(t, `{"max_tokens":97000}`, search), http.StatusTooManyRequests)
	caddytest.CheckQuota(t, e.ask(t, `{"max_tokens":97000}`, support).Want(t, http.StatusOK, caddytest.Any), 100_000, 3_000)
	for range 70 {
		e.Get(t, "/v1/models", search).WantFree(t)
	}
	before := len(e.backend.seen())
	e.Get(t, "/v1/models").Want(t, http.StatusUnauthorized, caddytest.Any)
	e.Send(t, "post", e.URL+chatPath, `{"max_tokens":99000}`, search, ofJSON).Want(t, http.StatusTooManyRequests, caddytest.Any)
	guesses := 0
	for i := range 80 {
		for _, form := range []string{"Authorization: Bearer guess-%d", "Authorization: bearer key-of-search #%d"} {
			if a := e.ask(t, `{}`, fmt.Sprintf(form, i)); a.Status == http.StatusUnauthorized {
				guesses++
			} else {
				caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
			}
		}
	}
	assert.ErrorIf(t, guesses > 2*60, "an address guessed %d keys", guesses)
	assert.Equal(t, len(e.backend.seen()), before, "calls of strangers that reached the model")
	e.WaitForRefund(t, "tokens", "support", 96_000)
}

// jobCrawlers takes the places of strangers, and lets a person, a liar and a search engine come.
func jobCrawlers(t *testing.T, caddyfile string) {
	t.Helper()
	server := caddytest.StartDNS(t, caddytest.DNSNames(map[string]string{"66.249.66.1": "crawl-66-249-66-1.googlebot.com", "203.0.113.6": "dsl-6.isp.example"}))
	const line = "\t\tcrawlers google bing\n"
	assert.FatalIf(t, strings.Count(caddyfile, line) != 1, "the file has no line %q", line)
	caddyfile = strings.Replace(caddyfile, line, "\t\tcrawlers google bing {\nresolver "+server.Addr+"\nwait 2s\n}\n", 1)
	caddyfile = strings.Replace(caddyfile, "{\n", "{\nservers {\ntrusted_proxies static 127.0.0.1/32\n}\n", 1)
	onRecipe(t, caddyfile, func(t *testing.T, e recipeEnv) {
		holder := e.backend.holder
		for i := range 8 { // each from another address
			holder.Begin(t, e.Node, "/?hold", fmt.Sprint("X-Forwarded-For: 198.51.100.", i))
		}
		e.AwaitCrawler(t, "66.249.66.1", "Googlebot/2.1")
		e.AwaitCrawler(t, "203.0.113.6", "Googlebot/2.1")
		page := []string{"Accept: text/html", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
		as := func(address, agent string) []string {
			return append([]string{"X-Forwarded-For: " + address, "User-Agent: Mozilla/5.0 (compatible; " + agent + ")"}, page...)
		}
		for _, crawler := range [][]string{as("203.0.113.6", "Googlebot/2.1"), as("203.0.113.7", "AnyBot"), append(as("203.0.113.8", "AnyBot"), "Cookie: rl-pass=forged")} {
			e.Get(t, "/article", crawler...).Want(t, http.StatusServiceUnavailable, caddytest.Any, "Retry-After: 1")
		}
		e.Get(t, "/article", as("66.249.66.1", "Googlebot/2.1")...).Want(t, http.StatusOK, caddytest.Any)
		v := &caddytest.Visitor{Node: e.Node}
		assert.NoError(v.Open("/article", 1))(t).Want(t, http.StatusOK, caddytest.Any)
		for range 20 { // by those who have waited
			holder.Begin(t, e.Node, "/?hold", "Cookie: rl-pass="+v.Cookies["rl-pass"])
		}
		e.Get(t, "/article", as("66.249.66.1", "Googlebot/2.1")...).Want(t, http.StatusOK, caddytest.Any)
		a := assert.NoError(v.Open("/article", 0))(t)
		a.Want(t, http.StatusServiceUnavailable, caddytest.Any)
		assert.ErrorIf(t, caddytest.WaitingLink(a) != "", "who has waited is to wait again: %v", a)
	})
}

// jobCDN has two nodes behind a CDN count together, by a Redis that a sentinel names and that dies.
func jobCDN(t *testing.T, caddyfile string) {
	t.Helper()
	server := redistest.Start(t, "--requirepass", "of-redis")
	sentinel := redistest.StartSentinel(t, server, "main", "sentinel auth-pass main of-redis")
	const address, password, block = "sentinel-1:26379 sentinel-2:26379 sentinel-3:26379", "{env.REDIS_PASSWORD}", "\t\tredis {\n"
	for _, part := range []string{address, password, block} {
		assert.FatalIf(t, strings.Count(caddyfile, part) != 1, "the file has no one %q", part)
	}
	caddyfile = strings.NewReplacer(address, sentinel.Addr, password, "of-redis", block, "\t\ttimeout 10s\n"+block).Replace(caddyfile)
	nodes := []recipeEnv{runRecipe(t, caddyfile, ""), runRecipe(t, caddyfile, "")}
	for _, n := range nodes {
		n.Await(t, "/", http.StatusOK, caddytest.Any)
	}
	const client = "203.0.113.9"
	for i := range 100 {
		forwarded := fmt.Sprintf("X-Forwarded-For: 10.0.0.%d, 198.51.100.%d, %s, 192.0.2.7", i, i, client) // all but the last two are the client's words
		nodes[i%2].Get(t, "/", forwarded).Want(t, http.StatusOK, caddytest.Any, caddytest.NoQuota)
	}
	for _, n := range nodes {
		caddytest.CheckRefusal(t, n.Get(t, "/", "X-Forwarded-For: "+client), http.StatusTooManyRequests)
		n.Get(t, "/", "X-Forwarded-For: 203.0.113.10, 192.0.2.7").Want(t, http.StatusOK, caddytest.Any)
	}
	server.Kill()
	for _, n := range nodes {
		n.Get(t, "/", "X-Forwarded-For: "+client).Want(t, http.StatusTooManyRequests, caddytest.Any)
		n.Get(t, "/", "X-Forwarded-For: 203.0.113.11").Want(t, http.StatusOK, caddytest.Any)
	}
}
