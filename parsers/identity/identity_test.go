package main

import (
	"os"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/tryout"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"
)

// TestResults_servers has a row of versions for each server of the list and no other, in its order.
func TestResults_servers(t *testing.T) {
	page := string(assert.NoError(os.ReadFile("results.md"))(t))
	_, rows, _ := strings.Cut(page, "| server | versions |\n|---|---|\n")
	rows, _, found := strings.Cut(rows, "\n\n")
	assert.FatalIf(t, !found, "results.md has no servers")
	var written, listed []string
	for line := range strings.Lines(rows) {
		written = append(written, strings.TrimSpace(strings.Split(line, "|")[1]))
	}
	for _, s := range list() {
		listed = append(listed, s.String())
	}
	assert.Equal(t, strings.Join(written, "\n"), strings.Join(listed, "\n"), "the servers of the table")
}

// TestList names each server once, and only those of a release have packages.
func TestList(t *testing.T) {
	servers := map[string]bool{}
	for _, s := range list() {
		assert.ErrorIf(t, servers[s.String()], "%s is there twice", s)
		servers[s.String()] = true
		assert.ErrorIf(t, (s.Suite == "") != (len(s.Packages) == 0), "%s has the release %q and the packages %v", s, s.Suite, s.Packages)
		assert.ErrorIf(t, !strings.Contains(strings.Join(s.Command, " "), "{port}"), "%s is given no port: %v", s, s.Command)
	}
}

// TestCorpus has other requests for all inputs, and each of them is one request.
func TestCorpus(t *testing.T) {
	requests := map[string]bool{}
	for _, in := range corpus() {
		request := string(in.request(ownPath))
		id := in.group.String() + request
		assert.ErrorIf(t, requests[id], "%s: %s is there twice", in.group, in.name())
		requests[id] = true
		assert.Equal(t, strings.Count(request, "\r\n\r\n"), 1, "heads of %s", in.name())
		assert.ErrorIf(t, strings.Contains(in.target, " "), "%s ends its request line", in.name())
	}
}

// TestJudge finds each kind of disagreement, and nothing where readers and keys agree.
func TestJudge(t *testing.T) {
	inputs := []input{
		{cookies, ownPath, []string{"Cookie: session=a"}}, {cookies, ownPath, []string{"Cookie: session=b"}},
		{apiKeys, ownPath, []string{"X-Api-Key: a"}},
	}
	const policy = "{cookie.session}"
	s := &server{Program: frameworks.Program{Name: "s"}}
	for name, test := range map[string]struct {
		read [2]string
		told [2]told
		want string
	}{
		"agree":      {[2]string{"a", "b"}, [2]told{{Key: "a"}, {Key: "b"}}, ""},
		"unreadable": {[2]string{"a", "a"}, [2]told{{Key: "a"}, {Reason: "control"}}, ""},
		"none read":  {[2]string{"a", ""}, [2]told{{Key: "a"}, {}}, ""},
		"absent":     {[2]string{"a", "b"}, [2]told{{Key: "a"}, {}}, absent.String()},
		"two keys":   {[2]string{"a", "a"}, [2]told{{Key: "a"}, {Key: "b"}}, twoKeys.String()},
		"joined":     {[2]string{"a", "b"}, [2]told{{Key: "a"}, {Key: "a"}}, joined.String()},
	} {
		all := readings{}
		var tells []map[string]told
		for i := range test.read {
			all.add(i, map[string]any{"cookie": test.read[i]})
			tells = append(tells, map[string]told{policy: test.told[i]})
		}
		rows, found := judge(s, all, inputs, append(tells, nil))
		got := ""
		for _, d := range found {
			got += d.kind.String()
		}
		assert.Equal(t, got, test.want, "of inputs that %s", name)
		assert.Equal(t, len(rows), 1, "rows of inputs that %s", name)
	}
}

// TestSpellings has the inputs of the corpus and the servers of the list in the table of the command try, of the day of the results.
func TestSpellings(t *testing.T) {
	inputs, servers, usuals := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, in := range corpus() {
		inputs[in.group.String()+in.text()] = true
	}
	for _, s := range list() {
		servers[s.Name] = true
	}
	for _, in := range usual() {
		usuals[in.group.String()+in.text()] = true
		assert.ErrorIf(t, !inputs[in.group.String()+in.text()], "%s is no input", in.name())
	}
	for _, s := range tryout.Spellings() {
		assert.ErrorIf(t, !inputs[s.Group+s.Spelled] || !usuals[s.Group+s.Usual], "%s: %q of %q is no input", s.Group, s.Spelled, s.Usual)
		for _, server := range s.Servers {
			assert.ErrorIf(t, !servers[server], "%s is no server", server)
		}
		delete(inputs, s.Group+s.Spelled)
	}
	assert.ErrorIf(t, len(tryout.Spellings()) < 300, "%d spellings", len(tryout.Spellings()))
	page := string(assert.NoError(os.ReadFile("results.md"))(t))
	table := string(assert.NoError(os.ReadFile("../../internal/replay/tryout/spellings.tsv"))(t))
	_, rest, _ := strings.Cut(page, "\nRun on ")
	day, _, _ := strings.Cut(rest, ".")
	assert.ErrorIf(t, !strings.Contains(table, "make identity on "+day+":"), "the table is not of %s, as the results are: run make identity with -write", day)
}

// TestSpellingsOf finds the inputs of which a reader has what it has of the usual one.
func TestSpellingsOf(t *testing.T) {
	inputs := []input{{cookies, ownPath, []string{"Cookie: session=abc"}}, {cookies, ownPath, []string{"Cookie: session=%61bc"}}, {cookies, ownPath, nil}}
	all := readings{}
	all.add(0, map[string]any{"cookie a": "abc", "cookie b": "abc", "query": "abc"})
	all.add(1, map[string]any{"cookie a": "abc", "cookie b": "%61bc", "query": "abc"})
	all.add(2, map[string]any{"query": "abc"})
	found := spellingsOf(all, inputs)
	assert.ErrorIf(t, len(found) != 1 || found[0].number != 1, "found %v", found)
}

// TestReadings leaves out what is no value.
func TestReadings(t *testing.T) {
	all := readings{}
	all.add(0, map[string]any{"cookie": "", "query": nil, "key": "a\ufffd", "host": []any{"a"}})
	assert.Equal(t, len(all), 1, "readers with a value")
	assert.Equal(t, all["host"][0], `["a"]`, "a list")
}

// TestPathsFor asks each reader in the groups that are about it.
func TestPathsFor(t *testing.T) {
	s := &server{paths: []string{"/token", "/token2", "/basic", "/jwt"}}
	for g, want := range map[group]string{
		authorizations: "/r /token /token2", logins: "/r /basic", jwts: "/r /token /token2 /jwt", cookies: "/r", queries: "/r",
	} {
		assert.Equal(t, strings.Join(s.pathsFor(g), " "), want, "of %s", g)
	}
}
