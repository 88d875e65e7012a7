package redisratelimit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
)

// grammarOf returns the text that describes what a parser reads: the indented lines of its comment, which also
// stand in docs/caddyfile.md.
func grammarOf(t *testing.T, file, function string) string {
	t.Helper()
	parsed := assert.NoError(parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments))(t)
	for _, declaration := range parsed.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Name.Name == function {
			_, text, _ := strings.Cut(f.Doc.Text(), "\n\t")
			text, _, _ = strings.Cut("\t"+text, "\n\t}\n")
			return strings.ReplaceAll("\n"+text+"\n\t}\n", "\n\t", "\n")[1:]
		}
	}
	t.Fatalf("%s has no function %s", file, function)
	return ""
}

// form is a line of the grammar with its block.
type form struct {
	option, rest string
	block        []form // nil: none
}

// formsOf reads lines up to the end of their block, and returns the lines behind it.
func formsOf(lines []string) (forms []form, rest []string) {
	forms = []form{}
	for len(lines) > 0 {
		line := strings.TrimSpace(lines[0])
		lines = lines[1:]
		var f form
		switch {
		case line == "":
			continue
		case line == "}":
			return forms, lines
		case strings.HasSuffix(line, "{"):
			line = strings.TrimSuffix(line, "{")
			f.block, lines = formsOf(lines)
		}
		f.option, f.rest, _ = strings.Cut(strings.TrimSpace(line), " ")
		f.rest = strings.TrimSpace(f.rest)
		forms = append(forms, f)
	}
	return forms, nil
}

// wordsOf returns the options that the forms begin with, sorted.
func wordsOf(forms []form) (words []string) {
	for _, f := range forms {
		words = append(words, f.option)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// samples are values of the grammar's names, some of them only behind an option. One that may be repeated stands
// once, and with all samples.
var samples = map[string][]string{
	"<n>": {"3"}, "<duration>": {"10s"}, "<size>": {"2MiB"}, "<percentage>": {"50%", "80%"}, "<placeholder>": {"{plan}"}, "<name>": {"api"}, "<path>": {"/quota"},
	"<key>": {"{client_ip}"}, "<passes>": {"5"}, "<limit>": {"100"}, "<window>": {"1m"}, "<time zone>": {"Europe/Berlin"}, "<time>": {"06:00"}, "<weekday>": {"wednesday"}, "<day>": {"15"}, "<secret>": {"{env.SECRET}"},
	"<text with placeholders>": {"user:{header.X-User}"}, "<sum>": {"usage.total_tokens"}, "<prefix>": {"edge"}, "<file>": {"/etc/a.pem"},
	"<response matcher>": {"status 4xx", "header X-Failed *"}, "<address, range or private_ranges>": {"192.0.2.1", "2001:db8::/32", "private_ranges"},
	"<400-599>": {"400"}, "<0-32>": {"24"}, "<0-128>": {"56"}, "<url>": {"redis://127.0.0.1:6379"}, "<host:port or socket>": {"127.0.0.1:6379"},
	"<word>": {"OurMonitor", "OurProbe"}, "<suffix>": {".monitor.example.net", ".probe.example.net"}, "<module>": {"static 192.0.2.0/24"},
	"<crawler>": {"google", "bing"}, "crawlers <crawler>": {"yandex", "amazon"}, "<resolver>": {"127.0.0.53", "[2001:db8::53]:5353"},
	"<sha256>": {strings.Repeat("01234567", 8), strings.Repeat("89abcdef", 8)},

	"redis_ratelimit <matcher>": {"/api/*"}, "<matcher>": {"path /api/*", "method GET"},
	"webhook <url>": {"http://127.0.0.1:9000/"}, "events <event>": {"threshold", "banned", "outage", "data_lost", "never_met"},
	"secret <secret>": {"whsec_" + strings.Repeat("0123abcd", 4), "{env.SECRET}"},
	"wait <duration>": {"2s"}, "ban <duration>": {"10s", "1m"}, "lease <duration>": {"50ms"}, "deny_cache <duration>": {"500ms"},
}

// neededBy are the lines that an option needs, alone, in a block or with a value.
var neededBy = map[string]string{
	"burst": "algorithm token_bucket", "max_delay": "algorithm leaky_bucket",
	"node_timeout":  "max_concurrent 3",
	"wait":          "max_concurrent 3",
	"mode sentinel": "master m", "master": "mode sentinel", "username": "password p", "sentinel_username": "mode sentinel\nmaster m\nsentinel_password p",
	"sentinel_password": "mode sentinel\nmaster m", "sentinel_credentials": "mode sentinel\nmaster m",
	"crawlers/wait": "",
	"raw_key":       "key {json.user}", "on_unread": "match vars {json.method} tools/call", "in_flight": "count_if status 4xx",
	"cert": "key /etc/b.pem", "tls/key": "cert /etc/b.pem",
}

var (
	grammarWord = regexp.MustCompile(`(?:<[^>]*>|[^\s<])+`)
	grammarName = regexp.MustCompile(`<[^>]*>`)
)

// texts returns the lines that a form stands for: each alternative, with and without each optional part.
func (f form) texts(t *testing.T) (lines []string) {
	t.Helper()
	for alternative := range strings.SplitSeq(f.rest, " | ") {
		for _, whole := range withoutOptional(alternative) {
			all := f.values(t, f.option)
			for _, word := range grammarWord.FindAllString(whole, -1) {
				var longer []string
				for _, value := range f.values(t, word) {
					for _, line := range all {
						longer = append(longer, line+" "+value)
					}
				}
				all = longer
			}
			lines = append(lines, all...)
		}
	}
	return lines
}

// withoutOptional returns a text with and without each part in brackets.
func withoutOptional(text string) []string {
	before, rest, found := strings.Cut(text, "[")
	if !found {
		return []string{text}
	}
	inner, after, _ := strings.Cut(rest, "]")
	return append(withoutOptional(before+inner+after), withoutOptional(before+after)...)
}

// values returns what a word of the grammar stands for.
func (f form) values(t *testing.T, word string) (values []string) {
	t.Helper()
	for part := range strings.SplitSeq(word, "|") {
		part, repeated := strings.CutSuffix(part, "...")
		name := grammarName.FindString(part)
		if name == "" {
			values = append(values, part)
			continue
		}
		known, found := samples[f.option+" "+name]
		if !found {
			known = samples[name]
		}
		assert.FatalIf(t, len(known) == 0, "%s: no samples of %s", f.option, name)
		if values = append(values, strings.Replace(part, name, known[0], 1)); repeated {
			values = append(values, strings.Join(known, " "))
		}
	}
	return values
}

// parses adapts a Caddyfile.
func parses(text string) error {
	_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return err
}

// checkForms checks that every form of a block is parsed, and that no other word of the grammar is. around has the
// block's lines in place of LINES. base are lines that the block needs, as far as a form does not replace them.
func checkForms(t *testing.T, block string, forms []form, around string, base, foreign []string) {
	t.Helper()
	within := func(lines string) string { return strings.Replace(around, "LINES", lines, 1) }
	for _, f := range forms {
		inner := []string{""}
		if f.block != nil {
			inner = []string{" {\n" + strings.Join(sampleLines(t, f.block), "\n") + "\n}"}
		}
		for _, line := range f.texts(t) {
			text := within(strings.Join(append(f.companions(block, line, base), line+inner[0]), "\n"))
			err := parses(text)
			assert.ErrorIf(t, err != nil, "%s: %v\n%s", line, err, text)
		}
	}
	words := wordsOf(forms)
	for _, word := range append(foreign, "wibble") {
		if slices.Contains(words, word) || slices.Contains(words, "<crawler>") { // any word is the name of one
			continue
		}
		err := parses(within(strings.Join(append(slices.Clone(base), word+" 1"), "\n")))
		if err == nil || !strings.Contains(err.Error(), "unknown option "+word) && !strings.Contains(err.Error(), word+" is not allowed here") {
			t.Errorf("%s: the word %s is in no line of the grammar; got error %v", block, word, err)
		}
	}
}

// sampleLines are lines that may stand in the block of a form: all samples of a name, or the first option.
func sampleLines(t *testing.T, forms []form) []string {
	t.Helper()
	if first := forms[0]; !strings.HasPrefix(first.option, "<") {
		return first.texts(t)[:1]
	}
	name := strings.TrimSuffix(strings.TrimSpace(forms[0].option+" "+forms[0].rest), "...")
	assert.FatalIf(t, len(samples[name]) == 0, "no samples of %s", name)
	return samples[name]
}

// companions are the other lines that a block needs with a line.
func (f form) companions(block, line string, base []string) (lines []string) {
	option, value, _ := strings.Cut(line, " ")
	needed, found := neededBy[block+"/"+option]
	if !found {
		needed, found = neededBy[option+" "+value]
	}
	if !found {
		needed = neededBy[option]
	}
	if needed != "" {
		lines = strings.Split(needed, "\n")
	}
	runs := slices.ContainsFunc(append(lines, line), func(l string) bool { return strings.HasPrefix(l, "max_concurrent ") })
	for _, l := range base {
		word, _, _ := strings.Cut(l, " ")
		replaced := word == option || slices.ContainsFunc(lines, func(n string) bool { return strings.HasPrefix(n, word+" ") })
		if replaced || runs && (word == "limit" || word == "window") {
			continue
		}
		lines = append(lines, l)
	}
	return lines
}

// policyBase is a policy that any other option may be added to.
var policyBase = []string{"limit 100", "window 1h"}

// directiveSyntax returns the syntax of the directive on the page, without the comments behind its lines.
func directiveSyntax(t *testing.T) string {
	t.Helper()
	page := assert.NoError(os.ReadFile("docs/caddyfile.md"))(t)
	_, text, found := strings.Cut(defaultComment.ReplaceAllString(string(page), ""), "\n```\nredis_ratelimit [<matcher>]")
	assert.FatalIf(t, !found, "docs/caddyfile.md has no syntax of the directive")
	text, _, _ = strings.Cut(text, "\n```\n")
	return "redis_ratelimit [<matcher>]" + text
}

// TestGrammar_tables holds the syntax of the page to the tables of options, in both directions.
func TestGrammar_tables(t *testing.T) {
	whole, _ := formsOf(strings.Split(directiveSyntax(t), "\n"))
	var onPage, inTables []string
	for _, f := range whole[0].block {
		onPage = append(onPage, f.option+" "+f.rest)
		for _, line := range f.block {
			onPage = append(onPage, f.option+" { "+strings.TrimSpace(line.option+" "+line.rest))
		}
	}
	policies, handlers := options.Syntax()
	for _, lines := range []map[string][]string{policies, handlers} {
		inTables = append(inTables, slices.Concat(slices.Collect(maps.Values(lines))...)...)
	}
	for _, line := range inTables {
		assert.ErrorIf(t, !slices.Contains(onPage, line), "docs/caddyfile.md lacks the line %q of the tables in its syntax", line)
	}
	for _, line := range onPage {
		assert.ErrorIf(t, !slices.Contains(inTables, line) && line != "match " && line != "count " && line != "count_if " && line != "challenge ",
			"the tables lack the line %q, which docs/caddyfile.md has in its syntax", line)
	}
}

// tables returns the names of the options in a policy block, and of those beside policy blocks.
func tables() (inBlocks, ofHandlers []string) {
	policies, handlers := options.Syntax()
	return slices.Collect(maps.Keys(policies)), slices.Collect(maps.Keys(handlers))
}

func TestGrammar_directive(t *testing.T) {
	whole, _ := formsOf(strings.Split(directiveSyntax(t), "\n"))
	forms := whole[0].block
	blockNames, handlerNames := tables()
	words := slices.Sorted(slices.Values(slices.Concat(blockNames, handlerNames)))
	got := wordsOf(forms)
	assert.FatalIf(t, !slices.Equal(got, words), "docs/caddyfile.md has the options %q, parsed are %q", got, words)
	for _, head := range whole[0].texts(t) {
		inner := ""
		if !strings.Contains(head, "{client_ip}") {
			inner = strings.Join(policyBase, "\n")
		}
		err := parses(":8080 {\n" + head + " {\n" + inner + "\n}\n}")
		assert.ErrorIf(t, err != nil, "%s: %v", head, err)
	}
	const site = ":8080 {\n@api path /api/*\nredis_ratelimit {\nLINES\n}\n}\n"
	foreign := slices.Concat(appOptions, redisBlockOptions, memoryOptions, tlsOptions)
	without := func(words, known []string) []string {
		return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(known, w) })
	}
	outside := slices.DeleteFunc(slices.Clone(forms), func(f form) bool { return f.option == "policy" })
	checkForms(t, "directive", outside, site, policyBase, without(foreign, words))
	inside := slices.DeleteFunc(outside, func(f form) bool { return f.option == "name" || !slices.Contains(blockNames, f.option) })
	checkForms(t, "policy", inside, strings.Replace(site, "LINES", "policy api {\nLINES\n}", 1), policyBase, without(slices.Concat(foreign, handlerNames), blockNames))
}

func TestGrammar_globalOption(t *testing.T) {
	whole, _ := formsOf(strings.Split(grammarOf(t, "caddyfile.go", "parseGlobalOption"), "\n"))
	blockNames, handlerNames := tables()
	all := slices.Concat(blockNames, handlerNames, appOptions, redisBlockOptions, memoryOptions, tlsOptions)
	checkBlock(t, "global", whole[0].block, "{\nredis_ratelimit {\nLINES\n}\n}\n", all)
}

// blocksOf are the options of the blocks of the global option, and lines that they need.
var blocksOf = map[string]struct{ options, base []string }{
	"global": {options: appOptions}, "redis": {redisBlockOptions, []string{"address 127.0.0.1:6379"}}, "memory": {options: memoryOptions}, "webhook": {webhookOptions, []string{"secret {env.SECRET}"}}, "tls": {options: tlsOptions},
	"crawlers": {append([]string{"<crawler>"}, allCrawlersOptions...), []string{"apple"}}, "<crawler>": {options: crawlerOptions},
}

// checkBlock checks a block of the global option and those in it.
func checkBlock(t *testing.T, name string, forms []form, around string, foreign []string) {
	t.Helper()
	block := blocksOf[name]
	if got := wordsOf(forms); !slices.Equal(got, slices.Sorted(slices.Values(block.options))) {
		t.Fatalf("the comment of parseGlobalOption has the options %q of %s, parsed are %q", got, name, block.options)
	}
	checkForms(t, name, forms, around, block.base, foreign)
	for _, f := range forms {
		if f.block != nil {
			lines := append(slices.Clone(block.base), f.texts(t)[0]+" {\nLINES\n}")
			checkBlock(t, f.option, f.block, strings.Replace(around, "LINES", strings.Join(lines, "\n"), 1), foreign)
		}
	}
}

// defaultComment is a comment of the page behind a line of the syntax.
var defaultComment = regexp.MustCompile(`(?m) +# .*$`)

// TestGrammar_isInTheDocs holds the syntax of the global option on the page, without its comments, to the parser's comment.
func TestGrammar_isInTheDocs(t *testing.T) {
	page := assert.NoError(os.ReadFile("docs/caddyfile.md"))(t)
	syntax := defaultComment.ReplaceAllString(string(page), "")
	text := grammarOf(t, "caddyfile.go", "parseGlobalOption")
	assert.ErrorIf(t, !strings.Contains(syntax, "\n```\n"+text+"```\n"), "docs/caddyfile.md has no block with the comment of parseGlobalOption:\n%s", text)
}
