package crawlers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

const (
	shortestWord, longestWord = 4, 64
	longestName               = 253 // of the DNS
)

// CheckWord refuses a word that others than a crawler have in their User-Agent.
func CheckWord(word string) error {
	switch {
	case len(word) < shortestWord || len(word) > longestWord || strings.Trim(word, printable) != "":
		return fmt.Errorf("agent %q: use a word of %d to %d printable characters of ASCII", word, shortestWord, longestWord)
	case slices.ContainsFunc(agentsOfPeople[:], func(agent string) bool { return containsFold(agent, word) }):
		return fmt.Errorf("agent %s: browsers have it too; write a word that only the crawler has", word)
	case slices.ContainsFunc(agentsOfApps[:], func(agent string) bool { return containsFold(agent, word) }):
		return fmt.Errorf("agent %s: %s in apps too; write a word that only the crawler has", word, shorterThan(word))
	}
	return nil
}

// printable are the characters of a User-Agent's words.
const printable = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`|~ "

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// shorterThan names the shipped word that a word is the beginning of.
func shorterThan(word string) string {
	for i := range shipped {
		for _, whole := range shipped[i].Words {
			if len(whole) > len(word) && strings.EqualFold(whole[:len(word)], word) {
				return "shorter words than " + whole + " are"
			}
		}
	}
	return "it is"
}

// CheckSuffix refuses an end of names that others than a crawler's operator may have.
func CheckSuffix(suffix string) error {
	bare, dotted := strings.CutPrefix(strings.ToLower(suffix), ".")
	switch {
	case strings.Contains(suffix, "*"):
		return fmt.Errorf("names %s: write .%s, which stands for all names under it", suffix, strings.TrimLeft(suffix, "*."))
	case !isHostName(bare):
		return fmt.Errorf("names %q: use letters, digits, - and dots, other letters as xn--, without a dot at the end", suffix)
	case !dotted:
		return fmt.Errorf("names %s: write .%[1]s; without the dot fake%[1]s would do", suffix)
	}
	if public, _ := publicsuffix.PublicSuffix(bare); public == bare {
		return fmt.Errorf("names %s: anyone may have a name under it", suffix)
	}
	if isShared(bare) {
		return fmt.Errorf("names %s: customers of a hosting company have such names; write a longer one", suffix)
	}
	return nil
}

// isHostName reports whether a text is a name of the DNS.
func isHostName(text string) bool {
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(text) <= longestName
}

// isShared reports whether customers of a hosting company have names under a name, by themselves or further down.
func isShared(bare string) bool {
	return slices.ContainsFunc(hosting[:], func(shared string) bool { return shared == bare || strings.HasSuffix(shared, "."+bare) })
}

// Check refuses a crawler that anyone may pass for, or that nothing can be known of. Ranges says whether it has files of them.
func Check(name string, words, suffixes []string, ranges bool) error {
	if !isName(name) {
		return fmt.Errorf("%q: use a name of 1 to 64 letters, digits, _ and -, other than resolver, wait and crawler", name)
	}
	if len(words) == 0 {
		return fmt.Errorf("%s: agent is missing; write a word of its User-Agent", name)
	}
	if len(suffixes) == 0 && !ranges {
		return fmt.Errorf("%s: %w", name, missingWay(name))
	}
	for _, word := range words {
		if err := CheckWord(word); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, suffix := range suffixes {
		if err := CheckSuffix(suffix); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// missingWay says how a crawler could be known.
func missingWay(name string) error {
	where := ""
	if s, found := ShippedAs(name); found && s.RangesURL != "" {
		where = "; its operator publishes ranges at " + s.RangesURL
	}
	return errors.New("names or ranges is missing: by its User-Agent alone anyone is " + name + where)
}

// reserved are the words of the block, and of exempt, which are no names.
var reserved = []string{"resolver", "wait", "crawler"}

func isName(name string) bool {
	const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return name != "" && len(name) <= 64 && strings.Trim(name, characters) == "" && !slices.Contains(reserved, name)
}
