package docs

import (
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file runs the Caddyfiles, commands and requests of docs/operations.md.

const (
	operationsSite  = "http://localhost:8080"
	operationsAdmin = "localhost:2019"
	operationsRedis = "127.0.0.1:6379"
)

var (
	operationsCommand = regexp.MustCompile("(?m)(?:^\\$ |`)caddy redis-ratelimit ([^`\n]+)")
	operationsCurl    = regexp.MustCompile("curl ([^`\n]*" + operationsAdmin + "/redis_ratelimit/[^`\n]*)")
	operationsPath    = regexp.MustCompile(`/redis_ratelimit/\w+`)
	operationsLog     = regexp.MustCompile(`(?m)^\$ ((?:jq|grep) .*access\.log.*)$`)
	shellWord         = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"]+)+`)
	quotedPart        = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

func operationsText(t *testing.T) string {
	t.Helper()
	return caddytest.ReadFile(t, "docs/operations.md")
}

// matches returns the last group of all matches in the document. It fails without a match.
func matches(t *testing.T, pattern *regexp.Regexp, text string) []string {
	t.Helper()
	var found []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, match[len(match)-1])
	}
	assert.FatalIf(t, len(found) == 0, "docs/operations.md has nothing like %s", pattern)
	return found
}

// shellWords splits a line as a shell does, with quotes only.
func shellWords(line string) []string {
	words := shellWord.FindAllString(line, -1)
	for i := range words {
		words[i] = quotedPart.ReplaceAllStringFunc(words[i], func(quoted string) string { return quoted[1 : len(quoted)-1] })
	}
	return words
}

// startOperations starts the document's first Caddyfile on a Redis of its own.
func startOperations(t *testing.T, text string) *caddytest.Node {
	t.Helper()
	file := matches(t, wholeCaddyfile, text)[0]
	for old, replacement := range map[string]string{
		"{\n\tredis_ratelimit {": "{\n\tadmin {$ADMIN}\n\tauto_https off\n\tgrace_period 1s\n\tredis_ratelimit {\n\t\ttimeout 10s",
		operationsRedis:          redistest.Start(t).Addr,
		":8080":                  ":{$PORT}",
	} {
		assert.FatalIf(t, strings.Count(file, old) != 1, "the first Caddyfile has no %q, or several:\n%s", old, file)
		file = strings.Replace(file, old, replacement, 1)
	}
	n := caddytest.Start(t, file)
	assert.Retry(t, "Redis decides", func() (again bool, seen any) {
		a := n.Ask(t, http.MethodGet, "policies", "")
		return !strings.Contains(a.Body, `"breaker":"closed"`), a
	})
	return n
}

// flood uses up the quotas of the document's clients. The first one goes on until it is banned.
func flood(t *testing.T, n *caddytest.Node) {
	t.Helper()
	for i, client := range []string{"198.51.100.66", "203.0.113.7", "2001:db8:1:2::42"} {
		for range []int{25, 6, 6}[i] {
			n.Get(t, "/login", "X-Forwarded-For: "+client)
		}
	}
}

func TestOperations_commands(t *testing.T) {
	t.Parallel()
	text := operationsText(t)
	n := startOperations(t, text)
	config := caddytest.WriteCaddyfile(t, "{\n\tredis_ratelimit {\n\t\tredis redis://"+redistest.Start(t).Addr+"\n\t}\n}\n")
	for _, line := range matches(t, operationsCommand, text) {
		args := shellWords(strings.ReplaceAll(line, operationsSite, n.URL))
		if args[0] == "page" { // it never ends
			caddytest.RunRatelimit(t, nil, append(args, "--help")...).Want(t, 0, "Usage:\n  caddy redis-ratelimit "+args[0])
			continue
		}
		if at := slices.Index(args, "--config"); at > 0 {
			args[at+1] = config
		}
		flood(t, n)
		e := n.Ratelimit(t, args...)
		assert.ErrorIf(t, e.Code != 0 && (e.Code != 4 || args[0] != "explain"), "caddy redis-ratelimit %s: %v", line, e)
		for _, title := range titlesAfter(text, line) {
			assert.ErrorIf(t, !strings.Contains(strings.Join(strings.Fields(e.Stdout), " "), title), "caddy redis-ratelimit %s: no %q in %v", line, title, e)
		}
	}
}

var titleLine = regexp.MustCompile(`(?m)^ *±?[A-Z]{3}[A-Z ±]+$`)

// titlesAfter returns the table headings in the first documented output of a command.
func titlesAfter(text, line string) []string {
	_, output, _ := strings.Cut(text, "\n$ caddy redis-ratelimit "+line+"\n")
	output, _, _ = strings.Cut(output, "\n```")
	output, _, _ = strings.Cut(output, "\n$ ")
	var titles []string
	for _, title := range titleLine.FindAllString(output, -1) {
		titles = append(titles, strings.Join(strings.Fields(title), " "))
	}
	return titles
}

func TestOperations_adminAPI(t *testing.T) {
	t.Parallel()
	text := operationsText(t)
	n := startOperations(t, text)
	asked := map[string]bool{}
	for _, line := range matches(t, operationsCurl, text) {
		flood(t, n)
		line = strings.ReplaceAll(strings.ReplaceAll(line, operationsSite, n.URL), operationsAdmin, n.Admin)
		method, url, body := http.MethodGet, "", ""
		words := shellWords(line)
		for i, word := range words {
			switch {
			case strings.HasPrefix(word, n.Admin):
				url = word
			case word == "-d":
				method, body = http.MethodPost, words[i+1]
			}
		}
		n.Send(t, method, url, body).Want(t, http.StatusOK, caddytest.Any)
		asked[operationsPath.FindString(url)] = true
	}
	for _, path := range operationsPath.FindAllString(text, -1) {
		assert.ErrorIf(t, !asked[path], "no example requests %s", path)
	}
}

func TestOperations_accessLog(t *testing.T) {
	t.Parallel()
	text := operationsText(t)
	n := startOperations(t, text)
	flood(t, n)
	for _, line := range matches(t, operationsLog, text) {
		if _, err := exec.LookPath("jq"); err != nil && strings.HasPrefix(line, "jq") {
			continue
		}
		assert.WaitFor(t, line, func() error {
			look := exec.Command("sh", "-c", line)
			look.Dir = n.Command.Dir
			output, err := look.CombinedOutput()
			if err == nil && !strings.Contains(string(output), "203.0.113.7") {
				err = fmt.Errorf("the denied client is missing in:\n%s", output)
			}
			return err
		})
	}
}

// TestOperations_rights tries the documented rights, and each of those of the commands left out.
func TestOperations_rights(t *testing.T) {
	t.Parallel()
	all, _ := documentedRights(t)
	needed := strings.Fields(caddytest.ACLOperatorCommands)
	server := redistest.Start(t)
	caddytest.RestrictUser(t, []*redistest.Server{server}, all)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\n\ttimeout 10s\n\tredis redis://limiter:secret@"+server.Addr+"\n}", "redis_ratelimit {client_ip} 5 1h {\nban 1h\n}"))
	caddytest.CheckExactRights(t, []*redistest.Server{server}, all, needed, nil, func(t *testing.T) error {
		n.Get(t, "/")
		for _, question := range []struct{ method, path, body string }{
			{http.MethodPost, "state", `{"policy":"default","key":"127.0.0.1"}`},
			{http.MethodGet, "bans?policy=default", ""},
			{http.MethodPost, "override", `{"policy":"default","key":"127.0.0.1","unban":true}`},
			{http.MethodPost, "override", `{"policy":"default","all":true,"unban":true}`},
			{http.MethodPost, "reset", `{"policy":"default","key":"127.0.0.1"}`},
			{http.MethodPost, "reset", `{"policy":"default"}`},
		} {
			n.GetTimes(t, 6, "/")
			if a := n.Ask(t, question.method, question.path, question.body); a.Status != http.StatusOK {
				return fmt.Errorf("got %v", a)
			}
		}
		return nil
	})
}
