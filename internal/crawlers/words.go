package crawlers

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// words finds the crawlers whose words are in a User-Agent. Real clients have few different texts, so that what was found in one
// is remembered.
type words struct {
	pairs  [1 << 16 / 32]uint32 // a bit of each [pairOf] that begins a word
	byPair map[uint16][]word

	known  atomic.Pointer[map[string][]*Crawler] // which is not written to any more
	mu     sync.Mutex
	fresh  map[string][]*Crawler // texts that known lacks
	misses int                   // since known was replaced
}

type word struct {
	text string
	of   *Crawler
}

const (
	longestAgent = 1024 // bytes of a User-Agent, of which others are not looked at

	// What is remembered: so many texts of at most so many bytes.
	mostKnown, mostFresh = 4096, 2048
	longestKnown         = 512
)

func newWords(all []*Crawler) *words {
	w := &words{byPair: map[uint16][]word{}, fresh: map[string][]*Crawler{}}
	for _, c := range all {
		for _, text := range c.Words {
			pair := pairOf(text[0], text[1])
			w.pairs[pair>>5] |= 1 << (pair & 31)
			w.byPair[pair] = append(w.byPair[pair], word{text, c})
		}
	}
	w.known.Store(&map[string][]*Crawler{})
	return w
}

// pairOf returns a number of two bytes, which is the same for letters of either case.
func pairOf(a, b byte) uint16 { return uint16(a|0x20)<<8 | uint16(b|0x20) }

// in returns the crawlers whose words are in a User-Agent, each once, in the order of the configuration.
func (w *words) in(agent string) []*Crawler {
	if found, ok := (*w.known.Load())[agent]; ok {
		return found
	}
	found := w.find(agent[:min(len(agent), longestAgent)])
	if len(agent) <= longestKnown {
		w.remember(agent, found)
	}
	return found
}

func (w *words) find(agent string) (found []*Crawler) {
	for i := 0; i+1 < len(agent); i++ {
		pair := pairOf(agent[i], agent[i+1])
		if w.pairs[pair>>5]>>(pair&31)&1 == 0 {
			continue
		}
		for _, word := range w.byPair[pair] {
			rest := agent[i:]
			if len(rest) >= len(word.text) && strings.EqualFold(rest[:len(word.text)], word.text) && !slices.Contains(found, word.of) {
				found = append(found, word.of)
			}
		}
	}
	slices.SortFunc(found, func(a, b *Crawler) int { return a.order - b.order })
	return found
}

// remember keeps what was found in a text. Texts are published in batches that double, so that each is copied twice on average. A
// full table begins anew. A request does not wait for others to do that.
func (w *words) remember(agent string, found []*Crawler) {
	if !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	if _, ok := w.fresh[agent]; !ok && len(w.fresh) < mostFresh {
		w.fresh[strings.Clone(agent)] = found
	}
	known := *w.known.Load()
	if w.misses++; w.misses < len(known)+len(w.fresh) {
		return
	}
	next := w.fresh
	if len(known)+len(next) <= mostKnown {
		maps.Copy(next, known)
	}
	w.known.Store(&next)
	w.fresh, w.misses = map[string][]*Crawler{}, 0
}
