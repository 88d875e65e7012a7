package display

import (
	"strings"
	"unicode/utf8"
)

// blockWidth is how many characters a line of a block has at most: those of the narrowest usual terminal.
const blockWidth = 80

// Block is a title above named texts that are wrapped to fit into 80 columns. An entry that is marked begins with an
// exclamation mark, so that the eye and grep find it.
type Block struct {
	Title   string
	entries []blockEntry
}

type blockEntry struct {
	marked     bool
	name, text string
}

// Add adds a text with its name. One without a name goes on with the entry before it.
func (b *Block) Add(name, text string) { b.entries = append(b.entries, blockEntry{false, name, text}) }

// AddMarked adds a text that is to be seen first.
func (b *Block) AddMarked(name, text string) {
	b.entries = append(b.entries, blockEntry{true, name, text})
}

// Write writes the block, in a form that is safe on a terminal.
func (b *Block) Write(w Writer) {
	w.Print(Wrap(b.Title, "  "))
	widest := 0
	for _, e := range b.entries {
		widest = max(widest, utf8.RuneCountInString(e.name))
	}
	for _, e := range b.entries {
		mark := "  "
		if e.marked {
			mark = "! "
		}
		first := mark + e.name + strings.Repeat(" ", widest-utf8.RuneCountInString(e.name)+2)
		w.Print(wrap(first, e.text, strings.Repeat(" ", len("  ")+widest+2)))
	}
}

// Wrap returns a text in lines that fit into 80 columns, each with its end, in a form that is safe on a terminal. All
// but the first are indented.
func Wrap(text, indent string) string { return wrap("", text, indent) }

// wrap does so behind what begins the first line. A word that no line can hold is cut.
func wrap(first, text, indent string) string {
	var lines []string
	line, begun := first, false // the line has a word
	for word := range strings.FieldsSeq(Escape(text)) {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > blockWidth {
			lines, line, begun = append(lines, line), indent, false
		}
		if begun {
			word = " " + word
		}
		for utf8.RuneCountInString(line)+utf8.RuneCountInString(word) > blockWidth {
			at := prefixLength(word, blockWidth-utf8.RuneCountInString(line))
			lines, line, word = append(lines, line+word[:at]), indent, word[at:]
		}
		line, begun = line+word, true
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ") + "\n"
	}
	return strings.Join(lines, "")
}

// prefixLength returns how many bytes the first characters of a text have.
func prefixLength(text string, characters int) int {
	at := 0
	for range characters {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}
