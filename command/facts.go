package command

import "strings"

// fact is a value with a name.
type fact struct {
	name, value string
	words       bool // a long value goes on below, between words
}

// facts are written in a line each.
type facts []fact

// add adds a fact, if there is one. Its value may be what clients chose.
func (f *facts) add(name, value string) { *f = append(*f, fact{name: name, value: printable(value)}) }

// write writes the facts that have a value. On a terminal words go on below where they do not fit; any
// other value, such as a long key, runs over the edge.
func (f facts) write(s screen) {
	widest := 0
	for _, fact := range f {
		widest = max(widest, widthOf(fact.name))
	}
	for _, fact := range f {
		if fact.value == "" {
			continue
		}
		parts := []string{fact.value}
		if fact.words && s.isTerminal() {
			parts = wrapWords(fact.value, s.width-widest-len(gap))
		}
		name := fact.name
		for _, part := range parts {
			s.print(name + strings.Repeat(" ", widest-widthOf(name)) + gap + s.paintWord(part) + "\n")
			name = ""
		}
	}
}
