package command

import "strings"

// keyValue is a value with a name.
type keyValue struct {
	name, value string
	words       bool // a long value goes on below, between words
}

// keyValues are written in a line each.
type keyValues []keyValue

// add adds a fact, if there is one. Its value may be what clients chose.
func (k *keyValues) add(name, value string) {
	*k = append(*k, keyValue{name: name, value: printable(value)})
}

// write writes the facts that have a value. On a terminal words go on below where they do not fit; any
// other value, such as a long key, runs over the edge.
func (k keyValues) write(s terminal) {
	widest := 0
	for _, fact := range k {
		widest = max(widest, widthOf(fact.name))
	}
	for _, fact := range k {
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
