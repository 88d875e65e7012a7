package caddytest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// recipe is a section of docs/recipes.md.
type recipe struct {
	heading    string
	caddyfiles []string // its blocks that are whole Caddyfiles: one
}

// plays show that a recipe does what it says, by the recipe's heading.
var plays = map[string]func(*testing.T, kitchen){
	"Log-in protection":                    playLogIn,
	"API tiers by key":                     playTiers,
	"One route and the whole site":         playRouteAndSite,
	"Burst and sustained rate":             playBurst,
	"Bots by User-Agent":                   playBots,
	"LLM token budgets":                    playTokens,
	"Smoothing in front of a weak backend": playSmoothing,
	"Dry run before enforcing":             playDryRun,
	"Behind a CDN":                         playCDN,
	"Moving from mholt/caddy-ratelimit":    playMove,
	"The words of other limiters":          playWords,
}

func TestRecipes_do_what_they_say(t *testing.T) {
	for _, r := range readRecipes(t) {
		t.Run(r.heading, func(t *testing.T) {
			play := plays[r.heading]
			if play == nil || len(r.caddyfiles) != 1 {
				t.Fatal("it has no test, or not one Caddyfile")
			}
			checkCaddyfile(t, r.caddyfiles[0], nil)
			for source, option := range stores(t) {
				t.Run(source, func(t *testing.T) {
					k := cook(t, r.caddyfiles[0], option)
					play(t, k)
					k.checkSource(t, source)
				})
			}
		})
	}
}

func TestRecipes_all_have_a_test(t *testing.T) {
	text, recipes := readRecipesText(t), readRecipes(t)
	if len(recipes) == 0 {
		t.Fatal("docs/recipes.md has no recipe")
	}
	for _, problem := range gaps(text, recipes) {
		t.Error(problem)
	}
}

// TestRecipe_without_a_test_is_noticed shows that the test above can fail.
func TestRecipe_without_a_test_is_noticed(t *testing.T) {
	const whole = "\n\n```caddyfile\n:8080 {\n}\n```\n"
	text := readRecipesText(t)
	for name, test := range map[string]struct{ text, want string }{
		"a new recipe":             {text + "\n## Something new" + whole, "Something new: no test"},
		"a recipe without a file":  {text + "\n## Something new\n", "Something new: 0 Caddyfiles, want 1"},
		"a recipe with two files":  {text + "\n## Something new" + whole + whole, "Something new: 2 Caddyfiles, want 1"},
		"a recipe that is missing": {strings.Replace(text, "\n## Behind a CDN\n", "\n### Behind a CDN\n", 1), "Behind a CDN: no recipe"},
		"contents that lack one":   {strings.Replace(text, "[Behind a CDN]", "[Behind]", 1), "Behind a CDN: not in the contents"},
	} {
		if problems := gaps(test.text, parseRecipes(test.text)); !slices.Contains(problems, test.want) {
			t.Errorf("%s: got %q, want %q among them", name, problems, test.want)
		}
	}
}

// gaps tells which recipes have no test, no Caddyfile or no link, and which tests have no recipe.
func gaps(text string, recipes []recipe) (problems []string) {
	documented := map[string]bool{}
	for _, r := range recipes {
		documented[r.heading] = true
		if plays[r.heading] == nil {
			problems = append(problems, r.heading+": no test")
		}
		if count := len(r.caddyfiles); count != 1 {
			problems = append(problems, fmt.Sprintf("%s: %d Caddyfiles, want 1", r.heading, count))
		}
		if !strings.Contains(text, "["+r.heading+"](#"+anchor(r.heading)+")") {
			problems = append(problems, r.heading+": not in the contents")
		}
	}
	for heading := range plays {
		if !documented[heading] {
			problems = append(problems, heading+": no recipe")
		}
	}
	return problems
}

func readRecipesText(t *testing.T) string {
	t.Helper()
	return readDocument(t, "docs/recipes.md")
}

func readRecipes(t *testing.T) []recipe {
	t.Helper()
	return parseRecipes(readRecipesText(t))
}

// parseRecipes takes every section of the second level for a recipe.
func parseRecipes(text string) (recipes []recipe) {
	for _, section := range strings.Split(text, "\n## ")[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		r := recipe{heading: heading}
		for _, block := range wholeCaddyfile.FindAllStringSubmatch(section, -1) {
			r.caddyfiles = append(r.caddyfiles, block[1])
		}
		recipes = append(recipes, r)
	}
	return recipes
}

func playLogIn(t *testing.T, k kitchen) {
	logIn := func(password string) answer {
		return k.send(t, http.MethodPost, k.URL+"/login", "password="+password, "Content-Type: application/x-www-form-urlencoded")
	}
	for left := int64(4); left >= 0; left-- {
		if a := logIn("right"); a.status != http.StatusOK {
			t.Errorf("got %v; want the right password to do", a)
		} else {
			checkShare(t, a, 5, left+1)
		}
		k.givenBack(t, "failed-logins", "127.0.0.1", left+1)
		if a := logIn("guess"); a.status != http.StatusUnauthorized {
			t.Errorf("got %v; want a wrong password refused by the backend", a)
		} else {
			checkShare(t, a, 5, left)
		}
	}
	checkRefusal(t, logIn("guess"), http.StatusTooManyRequests)
	checkRefusal(t, logIn("right"), http.StatusTooManyRequests)
	if a := k.get(t, "/login"); a.status != http.StatusOK || hasShare(a) {
		t.Errorf("got %v; want the form to be free", a)
	}
}
