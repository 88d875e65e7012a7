package terminal

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
)

// keyValue is a value with a name.
type keyValue struct {
	name, value string
	words       bool // a long value continues below, between words
}

// KeyValues are written in a line each.
type KeyValues []keyValue

// Add adds a value with its name, in a form that is safe on a terminal. Without a value there is no line.
func (k *KeyValues) Add(name, value string) {
	*k = append(*k, keyValue{name: name, value: escape.Text(value)})
}

// AddWords adds a text as [KeyValues.Add] does. On a terminal it continues below where it is long.
func (k *KeyValues) AddWords(name, text string) {
	*k = append(*k, keyValue{name: name, value: escape.Text(text), words: true})
}

// Write writes the values, aligned. On a terminal words that do not fit continue below. Any other value,
// such as a long key, runs over the edge.
func (k KeyValues) Write(w Writer) { k.write(w, "") }

func (k KeyValues) write(w Writer, indent string) {
	widest := 0
	for _, pair := range k {
		widest = max(widest, widthOf(pair.name))
	}
	for _, pair := range k {
		if pair.value == "" {
			continue
		}
		lines := []string{pair.value}
		if pair.words && w.IsTerminal() {
			lines = wrapWords(pair.value, w.Width-len(indent)-widest-len(gap))
		}
		name := pair.name
		for _, line := range lines {
			w.Print(indent + name + strings.Repeat(" ", widest-widthOf(name)) + gap + w.PaintWord(line) + "\n")
			name = ""
		}
	}
}
