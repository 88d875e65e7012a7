// Command words counts the words of each page, as wc -w does, and fails where a page has more than the file of
// bounds allows, or no bound:
//
//	go -C tools run ./words ..
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pages are the patterns of the files that have a bound.
var pages = []string{"*.md", "docs/*.md", "deploy/*.md"}

// unbounded is the page that grows with the project.
const unbounded = "CHANGELOG.md"

func main() {
	path := flag.String("bounds", "words.txt", "the `file` of bounds: lines of page and most words")
	flag.Parse()
	if err := run(*path, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run checks the pages in a folder against the bounds.
func run(path, folder string) error {
	bounds, err := readBounds(path)
	if err != nil {
		return err
	}
	var broken []error
	for _, pattern := range pages {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return err
		}
		for _, file := range found {
			page, err := filepath.Rel(folder, file)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			broken = append(broken, check(bounds, filepath.ToSlash(page), len(strings.Fields(string(text)))))
			delete(bounds, filepath.ToSlash(page))
		}
	}
	for page := range bounds {
		broken = append(broken, fmt.Errorf("%s: there is no such page", page))
	}
	return errors.Join(broken...)
}

// check returns an error for a page that has too many words.
func check(bounds map[string]int, page string, words int) error {
	most, found := bounds[page]
	switch {
	case page == unbounded:
		return nil
	case !found:
		return fmt.Errorf("%s: has %d words and no bound", page, words)
	case words > most:
		return fmt.Errorf("%s: %d words, at most %d: say less, or say it where it belongs", page, words, most)
	}
	return nil
}

func readBounds(path string) (map[string]int, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	bounds := map[string]int{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		var page string
		var most int
		if _, err := fmt.Sscan(line, &page, &most); err != nil {
			return nil, fmt.Errorf("%s: %q: write page and most words: %w", path, line, err)
		}
		bounds[page] = most
	}
	return bounds, lines.Err()
}
