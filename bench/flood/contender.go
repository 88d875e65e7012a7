package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// contender is a Caddyfile in front of the backend.
type contender struct {
	name   string
	file   string                         // in the folder contenders
	edit   func(string) string            // of the file, nil: none
	redis  bool                           // counts there
	nodes  int                            // 0: one
	judged func(*table, *Result) []string // what the contender misses, nil: nothing is expected of it
}

// recipe is the one of docs/floods.md.
const recipe = "recipe"

var contenders = []contender{
	{name: recipe, file: recipe, judged: missesBars},
	{name: "recipe-redis", file: recipe, edit: withRedis, redis: true, judged: missesBars},
	{name: "recipe-nodes", file: recipe, edit: withRedis, redis: true, nodes: 2, judged: missesBars},
	{name: "recipe-doubled", file: recipe, edit: doubled, judged: missesRecipe},
	{name: "recipe-verified", file: recipe, edit: verified, judged: missesBars},
	{name: "nothing", file: "nothing"},
	{name: "address", file: "address"},
	{name: "crawlers", file: "crawlers"},
	{name: "ladder", file: "ladder"},
	{name: "mholt", file: "mholt"},
}

// without begins the names of contenders that are the recipe less the lines with a word.
const without = recipe + "-without:"

func names() (names []string) {
	for _, c := range contenders {
		names = append(names, c.name)
	}
	return names
}

func contenderOf(name string) (contender, error) {
	if word, found := strings.CutPrefix(name, without); found && word != "" {
		return contender{name: name, file: recipe, edit: func(text string) string { return lessLines(text, word) }}, nil
	}
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return contender{}, fmt.Errorf("-contenders %s: use %s or %sWORD", name, strings.Join(names(), ", "), without)
	}
	return contenders[i], nil
}

// lessLines returns the lines without a word.
func lessLines(text, word string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool { return strings.Contains(line, word) })
	return strings.Join(lines, "")
}

// withRedis returns a Caddyfile that counts in Redis.
func withRedis(text string) string {
	return strings.Replace(text, "{\n", "{\n\tredis_ratelimit {\n\t\tredis redis://{$REDIS}\n\t}\n", 1)
}

// doubled returns a Caddyfile of one who believes in twice as many workers.
func doubled(text string) string {
	return strings.NewReplacer("max_concurrent 28", "max_concurrent 56", "reserve 20", "reserve 40").Replace(text)
}

// searchRange is where the search engine comes from, and rangesFile the file of it, in the folder where Caddy runs.
const (
	searchRange = "66.249.64.0/19"
	rangesFile  = "google.ranges"
)

// verified returns a Caddyfile that knows the search engine by the option crawlers, and not by ranges of its own.
func verified(text string) string {
	return strings.NewReplacer(
		"{\n\tadmin off", "{\n\tredis_ratelimit {\n\t\tcrawlers {\n\t\t\tgoogle {\n\t\t\t\tranges "+rangesFile+
			"\n\t\t\t}\n\t\t}\n\t}\n\tadmin off",
		"client_ip('"+searchRange+"', '192.0.2.10')", `{http.redis_ratelimit.crawler} != "" || client_ip('192.0.2.10')`,
		"\troute {\n", "\troute {\n\t\tredis_ratelimit {\n\t\t\tname crawlers\n\t\t\tkey {http.redis_ratelimit.crawler}\n"+
			"\t\t\tlimit 300\n\t\t\twindow 1m\n\t\t\ton_empty_key skip\n\t\t}\n",
	).Replace(text)
}

//go:embed contenders/*.caddyfile
var caddyfiles embed.FS

func (c contender) caddyfile() ([]byte, error) {
	text, err := caddyfiles.ReadFile(path.Join("contenders", c.file+".caddyfile"))
	if err == nil && c.edit != nil {
		text = []byte(c.edit(string(text)))
	}
	return text, err
}

// start starts a contender's nodes. stop is never nil.
func (c contender) start(ctx context.Context, dir, binary, backend string) (nodes []*serve.Process, stop func(), err error) {
	var all []*serve.Process
	stop = func() {
		for _, p := range all {
			p.Stop()
		}
	}
	text, err := c.caddyfile()
	if err != nil {
		return nil, stop, err
	}
	if err := os.WriteFile(filepath.Join(dir, rangesFile), []byte(searchRange), 0o600); err != nil {
		return nil, stop, err
	}
	env := []string{"BACKEND=" + backend, "API_KEY=key-of-acme"}
	if c.redis {
		redis, err := serve.Redis(ctx, dir)
		if err != nil {
			return nil, stop, err
		}
		all = append(all, redis)
		env = append(env, "REDIS="+redis.Addr)
	}
	for i := range max(1, c.nodes) {
		node, err := serve.CaddyOf(ctx, dir, binary, fmt.Sprint("node", i), text, slices.Clone(env)...)
		if err != nil {
			return nil, stop, err
		}
		all, nodes = append(all, node), append(nodes, node)
	}
	return nodes, stop, nil
}
