package main

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestReadWaitingPage reads pages as browsers do, however their attributes are written.
func TestReadWaitingPage(t *testing.T) {
	for _, test := range []struct {
		name, body string
		want       waitingPage
		waits      bool
	}{
		{
			"without quotes",
			`<!doctype html><meta charset=utf-8><meta http-equiv=refresh content="1;url=?q=a&amp;rl-pass=T"><link rel=stylesheet href="?rl-pass=F">`,
			waitingPage{time.Second, "?q=a&rl-pass=T", []string{"?rl-pass=F"}}, true,
		},
		{
			"in other order, with a > in quotes", `<META content='2; URL="/a>b"' HTTP-EQUIV='Refresh'/><link href=/x?rl-pass=F rel='StyleSheet' />`,
			waitingPage{2 * time.Second, "/a>b", []string{"/x?rl-pass=F"}}, true,
		},
		{"that reloads itself", `<meta http-equiv=refresh content=3>`, waitingPage{after: 3 * time.Second}, true},
		{"with an icon", `<link rel=icon href=/i.png><meta name=viewport content="1;url=/">`, waitingPage{}, false},
		{"that waits for nothing", `<meta http-equiv=refresh content=soon>`, waitingPage{}, false},
		{"none", "Too many requests.", waitingPage{}, false},
	} {
		got, waits := readWaitingPage(test.body)
		assert.Equal(t, got, test.want, "a page %s", test.name)
		assert.Equal(t, waits, test.waits, "whether a page %s waits", test.name)
	}
}

// TestPlanVisits draws the same people by one seed, and about as many of each kind as there are.
func TestPlanVisits(t *testing.T) {
	plan := func(seed uint64) []visit {
		return planVisits(newRandom(seed, ofPeople), func(time.Duration) float64 { return 100 })
	}
	visits := plan(1)
	assert.ErrorIf(t, !reflect.DeepEqual(visits, plan(1)), "a seed draws other visits the second time")
	assert.ErrorIf(t, reflect.DeepEqual(visits, plan(2)), "two seeds draw the same visits")
	n := map[kind]int{}
	for _, v := range visits {
		n[v.kind]++
	}
	for _, k := range kinds {
		percent := 100 * float64(n[k.kind]) / float64(len(visits))
		off := math.Abs(percent - float64(k.percent))
		assert.ErrorIf(t, off > 3, "%s are %.1f %%, not %d", k.kind, percent, k.percent)
	}
}

// TestFloods draws the same bots by one seed.
func TestFloods(t *testing.T) {
	for _, f := range floods {
		draw := func() (texts []string) {
			random := newRandom(7, ofFlood)
			for _, b := range f.newBots(nil, random) {
				cookies := b.header.Get("Cookie")
				assert.ErrorIf(t, strings.Contains(cookies, "%!"), "flood %s sends %s", f.name, cookies)
				texts = append(texts, b.header.Get("X-Forwarded-For")+cookies)
			}
			return append(texts, botPath(random))
		}
		assert.ErrorIf(t, !slices.Equal(draw(), draw()), "flood %s draws other bots the second time", f.name)
	}
}

// TestContenders has each contender's file, and finds what it edits.
func TestContenders(t *testing.T) {
	for _, c := range contenders {
		text, err := c.caddyfile()
		assert.Must(t, err)
		plain, err := contender{file: c.file}.caddyfile()
		assert.Must(t, err)
		assert.ErrorIf(t, c.edit != nil && string(text) == string(plain), "%s edits nothing", c.name)
		assert.ErrorIf(t, c.redis != strings.Contains(string(text), "{$REDIS}"), "%s: a Redis that no Caddyfile names, or none for one", c.name)
	}
	c, err := contenderOf("recipe-without:challenge")
	assert.Must(t, err)
	text, err := c.caddyfile()
	assert.Must(t, err)
	assert.ErrorIf(t, strings.Contains(string(text), "challenge"), "lines are left:\n%s", text)
	assert.ErrorIf(t, !strings.Contains(string(text), "reserve"), "other lines are missing:\n%s", text)
	_, err = contenderOf("recipes")
	assert.ErrorIf(t, err == nil, "a contender that is none")
}

// TestPlan plans the recipe on all floods by default, and what was named otherwise.
func TestPlan(t *testing.T) {
	for _, test := range []struct {
		contenders, floods string
		cells              int
	}{{"", "", len(floods) + 2}, {"mholt", "", len(floods)}, {"", "C,D+", 2}, {"recipe,ladder", "A,B", 4}} {
		cells, err := plan(options{contenders: test.contenders, floods: test.floods})
		assert.Must(t, err)
		assert.Equal(t, len(cells), test.cells, "cells of %q on %q", test.contenders, test.floods)
	}
	_, err := plan(options{floods: "Z"})
	assert.ErrorIf(t, err == nil, "a flood that is none")
}

// resultOf is a run of 60 visits and 200 clicks of people, so many of which are good.
func resultOf(contender, flood string, pages, visits int) Result {
	r := newTally().result
	r.Contender, r.Flood, r.Runs, r.Seconds = contender, flood, 1, 30
	r.People[home] = Group{Pages: Count{pages, 200}, Visits: Count{visits, 60}}
	r.People[known] = Group{Pages: Count{40, 40}, Visits: Count{10, 10}}
	for _, name := range wanted {
		r.Programs[name] = Count{30, 30}
	}
	r.Work = map[string]time.Duration{ofPerson: time.Second, ofFloods: 3 * time.Second}
	return r
}

// TestVerdict judges cells by their bars, less the tolerance.
func TestVerdict(t *testing.T) {
	busy := resultOf(recipe, "C", 0, 0)
	busy.Runs, busy.Void = 0, 1
	unwanted := resultOf(recipe, "H", 0, 0)
	unwanted.Programs[monitor] = Count{9, 10}
	forgotten := resultOf(recipe, "D+", 0, 0)
	forgotten.People[known] = Group{Pages: Count{40, 40}, Visits: Count{9, 10}}
	for _, test := range []struct {
		name    string
		results []Result
		want    string
	}{
		{"all", []Result{resultOf(recipe, "C", 200, 60)}, "holds"},
		{"less the tolerance", []Result{resultOf(recipe, "C", 181, 53)}, "holds"}, // 92.1 and 90 %
		{"too few pages", []Result{resultOf(recipe, "C", 178, 60)}, "misses: pages 91, not 95"},
		{"too few visits", []Result{resultOf(recipe, "C", 200, 52)}, "misses: visits 89, not 92"},
		{"the mean of runs", []Result{resultOf(recipe, "C", 160, 48), resultOf(recipe, "C", 200, 60)}, "misses: pages 92, not 95"},
		{"a busy machine", []Result{busy}, "not measured"},
		{"a busy machine once", []Result{busy, resultOf(recipe, "C", 200, 60)}, "holds"},
		{"a program", []Result{unwanted}, "misses: monitor 90, not 95"},
		{"a crowd", []Result{resultOf(recipe, "H", 0, 0)}, "holds"},
		{"known people", []Result{resultOf(recipe, "D+", 0, 0)}, "holds"},
		{"known people that are not", []Result{forgotten}, "misses: visits of known 90, not 95"},
		{"other contenders", []Result{resultOf("nothing", "C", 0, 0)}, "–"},
		{"twice the backend", []Result{resultOf("recipe-doubled", "C", 190, 57), resultOf(recipe, "C", 200, 60)}, "holds"},
		{"twice the backend, alone", []Result{resultOf("recipe-doubled", "C", 190, 57)}, "misses: the recipe was not measured beside it"},
		{
			"twice the backend, and less", []Result{resultOf("recipe-doubled", "C", 200, 54), resultOf(recipe, "C", 200, 60)},
			"misses: visits 91, not 100",
		},
	} {
		table := newTable(test.results)
		got, _ := table.verdict(table.cells[0])
		assert.Equal(t, got, test.want, "%s", test.name)
	}
}

// TestWrite writes a table of what was read from a file, and fails for a bar that was missed.
func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.jsonl")
	for _, r := range []Result{resultOf(recipe, "C", 200, 60), resultOf("nothing", "C", 0, 0), resultOf(recipe, "D", 0, 0)} {
		assert.Must(t, appendResult(file, r))
	}
	results, err := readResults(file)
	assert.Must(t, err)
	var b strings.Builder
	err = write(&b, results)
	assert.ErrorIf(t, err == nil || err.Error() != "2 bars were missed", "the error is %v", err)
	for _, want := range []string{
		"| recipe | C | 1 | 70 | 100 | 100 | 100 | 100 | 100 | 100 | 25 |", "| 100/100 of 10 |", "| holds |\n| recipe | D |", "| – |\n",
	} {
		assert.ErrorIf(t, !strings.Contains(b.String(), want), "no %q in\n%s", want, &b)
	}
}

// TestSources draws other numbers for another theme of one seed.
func TestSources(t *testing.T) {
	people, again, bots := newRandom(1, ofPeople).Uint64(), newRandom(1, ofPeople).Uint64(), newRandom(1, ofFlood).Uint64()
	assert.Equal(t, again, people, "what a theme draws the second time")
	assert.ErrorIf(t, people == bots, "two themes draw the same")
}
