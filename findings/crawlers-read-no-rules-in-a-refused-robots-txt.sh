#!/usr/bin/env bash
# Crawlers whose request for robots.txt is refused with 429 fetch what it forbids. With 503 some do so too, and others take the
# whole site for forbidden: Python's robotparser and Go's robotstxt. colly asks robotstxt, and fetches all even then.
#
# Seen on 2026-11-30 with Python 3.11, robotstxt v1.1.2 and colly v2.3.0, of rules that forbid /private alone:
# "429: robotparser / and /private, robotstxt / and /private, colly / and /private", "503: robotparser nothing, robotstxt nothing,
# colly / and /private".
# Guess: a crawler that was told to slow down keeps off until it has read the rules; 503 does no harm that 429 does not.
# Follows from it: docs/crawlers.md: robots.txt is left out of limits, for no status of a refusal is right.
# Ground: crawlers
#
# Use: crawlers-read-no-rules-in-a-refused-robots-txt.sh [version of colly]. Needs Go and python3.
set -euo pipefail
version=${1:-v2.3.0}
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
cat >go.mod <<'END'
module finding

go 1.26
END
cat >parser.py <<'END'
import sys
import urllib.robotparser

parser = urllib.robotparser.RobotFileParser(sys.argv[1] + '/robots.txt')
parser.read()
print(*[path for path in ('/', '/private') if parser.can_fetch('crawler', sys.argv[1] + path)])
END
cat >main.go <<'END'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"

	"github.com/gocolly/colly/v2"
	"github.com/temoto/robotstxt"
)

func main() {
	for _, status := range []int{200, 429, 503} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/robots.txt" {
				fmt.Fprint(w, "a page")
				return
			}
			if status != 200 {
				w.Header().Set("Retry-After", "2")
				http.Error(w, "Too many requests.", status)
				return
			}
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
		}))

		parsed, err := exec.Command("python3", "parser.py", server.URL).Output()
		check(err)

		response, err := http.Get(server.URL + "/robots.txt")
		check(err)
		rules, err := robotstxt.FromResponse(response)
		check(err)
		var allowed, fetched []string
		collector := colly.NewCollector()
		collector.IgnoreRobotsTxt = false
		collector.OnResponse(func(r *colly.Response) { fetched = append(fetched, r.Request.URL.Path) })
		for _, path := range []string{"/", "/private"} {
			if rules.TestAgent(path, "crawler") {
				allowed = append(allowed, path)
			}
			if err := collector.Visit(server.URL + path); err != nil && err != colly.ErrRobotsTxtBlocked {
				panic(err)
			}
		}
		fmt.Printf("%d: robotparser %s, robotstxt %s, colly %s\n", status, say(strings.Fields(string(parsed))), say(allowed), say(fetched))
		server.Close()
	}
}

func say(paths []string) string {
	if len(paths) == 0 {
		return "nothing"
	}
	return strings.Join(paths, " and ")
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
END
go get "github.com/gocolly/colly/v2@$version" github.com/temoto/robotstxt@v1.1.2 >get.log 2>&1 || { cat get.log; exit 1; }
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
python3 --version
go list -m -f '{{.Path}} {{.Version}}' github.com/gocolly/colly/v2 github.com/temoto/robotstxt
got=$(go run .)
want='200: robotparser /, robotstxt /, colly /
429: robotparser / and /private, robotstxt / and /private, colly / and /private
503: robotparser nothing, robotstxt nothing, colly / and /private'
echo "$got"
[ "$got" = "$want" ] || { printf 'it has changed; it was\n%s\n' "$want"; exit 1; }
