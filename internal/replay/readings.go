package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// shownReadings is how many ways are shown in which files were read.
const shownReadings = 3

// readings says how the files were read: the format, the place of the client, and what the time is. Files that were read
// alike have one sentence.
func (l *readReport) readings() (sentences []string) {
	for i := range l.Files {
		f := &l.Files[i]
		if f.Time == "" {
			continue
		}
		text := "read as " + f.Format
		if f.Client != "" {
			text += ", the client is " + f.Client
		}
		text += ", times are " + f.Time
		if !slices.Contains(sentences, text) {
			sentences = append(sentences, text)
		}
	}
	if more := len(sentences) - shownReadings; more > 0 {
		sentences = append(sentences[:shownReadings], fmt.Sprintf("and in %s", display.Counted(more, "more way")))
	}
	return sentences
}

// sentence says how many clients are no addresses, with examples; empty if all are.
func (n *noAddresses) sentence() string {
	if n.Clients == 0 {
		return ""
	}
	const most = 60 // characters of an example
	var shown []string
	for _, client := range n.Examples {
		shown = append(shown, display.EscapeShort(client, most))
	}
	are := "are no addresses"
	if n.Clients == 1 {
		are = "is no address"
	}
	return fmt.Sprintf("%s %s, such as %s", display.Counted(n.Clients, "client"), are, strings.Join(shown, ", "))
}
