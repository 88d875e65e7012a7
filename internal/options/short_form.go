package options

import (
	"regexp"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// shortForm is what a user probably meant by words that are not the short form, as a Caddyfile has it.
type shortForm struct {
	key, limit, window, name string
	paths                    []string // behind the matcher
	unitless                 bool     // the window is a number alone
	unknown                  bool     // a word is none of them
}

var (
	rate       = regexp.MustCompile(`^(\d+)(?:r|reqs?|requests?)?(?:/|per|p)(\d*[a-z]+)$`)
	unitOfRate = regexp.MustCompile(`^(?:r|reqs?|requests?)/`)
	wholeCount = regexp.MustCompile(`^\d+$`)

	wordsBetween = strings.Fields("per every in each / = : req reqs requests times rate limit window key")
	wordsForAll  = strings.Fields("everyone everybody all global static")
)

// readShortForm reads words in any order.
func readShortForm(words []string) (f shortForm) {
	if len(words) == 1 {
		words = strings.Fields(words[0]) // all of it was quoted
	}
	for _, word := range words {
		word = unitOfRate.ReplaceAllString(strings.TrimRight(word, ",;"), "")
		if option, value, found := strings.Cut(word, "="); found && slices.Contains(wordsBetween, option) {
			word = value
		}
		f.read(word)
	}
	return f
}

func (f *shortForm) read(word string) {
	if parts := rate.FindStringSubmatch(word); parts != nil && f.limit == "" && f.window == "" && windowMeant(parts[2]) != "" {
		f.limit, f.window = parts[1], windowMeant(parts[2])
		return
	}
	if meant := countMeant(word); meant != "" && DurationMeant(word) == "" {
		word = meant
	}
	_, notSize := rule.ParseSize(word)
	isCount := wholeCount.MatchString(word) || notSize == nil
	switch meant := windowMeant(word); {
	case slices.Contains(wordsBetween, word):
	case strings.HasPrefix(word, "/"), strings.HasPrefix(word, "@"):
		f.paths = append(f.paths, word)
	case strings.Contains(word, "{") && f.key != "":
		f.key += ":" + rule.ShortNames(word)
	case strings.Contains(word, "{"):
		f.key = rule.ShortNames(word)
	case isCount && f.limit == "":
		f.limit = word
	case f.unitless && !isCount && meant != "":
		f.window, f.unitless = windowMeant(strings.TrimSuffix(f.window, "s")+word), false
	case meant != "" && f.window == "":
		f.window, f.unitless = meant, isCount
	case rule.PlaceholderFor(word) != "" && f.key == "":
		f.key = "{" + rule.PlaceholderFor(word) + "}"
	case slices.Contains(wordsForAll, word) && f.key == "":
		f.key = word
	case limiter.ValidName(word) && !isCount && !slices.Contains(policyNames, word) && f.name == "":
		f.name = word
	default:
		f.unknown = true
	}
}

// isWhole reports whether all words are known, with a limit and a window among them.
func (f *shortForm) isWhole() bool {
	return f.limit != "" && f.window != "" && f.name == "" && !f.unknown
}

// differs reports whether the words are not yet the short form that they mean.
func (f *shortForm) differs(words []string) bool {
	return len(f.paths) > 0 || rule.ShortNames(words[0]) != f.key || words[1] != f.limit || words[2] != f.window
}

// advice says what to write. Missing parts have a common value.
func (f *shortForm) advice(matcher string) string {
	write, key, limit, window := "; write ", f.key, f.limit, f.window
	if limit == "" || window == "" || f.unknown {
		write = ", such as "
	}
	for _, v := range []struct {
		value  *string
		common string
	}{{&key, "{client_ip}"}, {&limit, "100"}, {&window, "1m"}} {
		if *v.value == "" {
			*v.value = v.common
		}
	}
	paths := f.paths
	if matcher != "" {
		paths = append([]string{matcher}, paths...)
	}
	if len(paths) > 1 {
		write += "a matcher with a name above it, @limited path " + strings.Join(paths, " ") + ", and "
		paths = []string{"@limited"}
	}
	line := slices.Concat([]string{AppName}, paths, []string{key, limit, window})
	write += strings.Join(line, " ")
	if strings.Contains(f.key, "}:{") {
		write += " for a quota of each pair, or a policy for each of them"
	}
	if f.name != "" {
		write += " { and in the next line name " + f.name
	}
	return write
}

// calendarWords are the names of calendar periods, each with other words for it.
var calendarWords = [][2]string{{"day", "daily"}, {"week", "weekly"}, {"month", "monthly 1month 1mo"}, {"year", "yearly annually 1year 1y"}}

// windowMeant returns the window that a word means; empty: none.
func windowMeant(word string) string {
	if isCalendar(word) {
		return word
	}
	for _, calendar := range calendarWords {
		if slices.Contains(strings.Fields(calendar[1]), strings.ToLower(word)) {
			return calendar[0]
		}
	}
	return DurationMeant(word)
}
