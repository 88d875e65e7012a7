package accesslog

import (
	"slices"
	"strings"
)

// maxHeadWords bounds the words of a head that are told apart; the last one has the rest.
const maxHeadWords = 12

// none is the place of a word that a head does not have.
const none = -1

// headLayout says what the words before the time in brackets are: in Common Log Format client, identity and user. It is
// decided once for a file, because in a single line a client may have written what looks like an address.
type headLayout struct {
	words     int  // their number, of a user without blanks
	client    int  // the place of the client's address
	host      int  // the place of the host
	forwarded int  // the place of an X-Forwarded-For beside the client
	list      bool // the place of the client may hold an X-Forwarded-For
	addresses bool // most clients are addresses, not host names
}

// commonHead is the layout of Common Log Format.
var commonHead = headLayout{words: 3, client: 0, host: none, forwarded: none}

// headWords divides a head. A word that ends with a comma goes on: so does a list of addresses.
func headWords(head string) (words []string) {
	head = strings.TrimSuffix(head, " ")
	begin := 0
	for at := 0; at < len(head) && len(words) < maxHeadWords-1; at++ {
		if head[at] == ' ' && (at == 0 || head[at-1] != ',') {
			words = append(words, head[begin:at])
			begin = at + 1
		}
	}
	return append(words, head[begin:])
}

// learnHead decides the layout of a file by the heads of its first lines. Those with more words than most have a user with
// blanks.
func learnHead(heads [][]string) headLayout {
	count := make([]int, maxHeadWords+1)
	for _, words := range heads {
		count[len(words)]++
	}
	most := slices.Index(count, slices.Max(count))
	heads = slices.DeleteFunc(heads, func(words []string) bool { return len(words) > most })
	if len(heads) == 0 {
		return commonHead
	}
	l := headLayout{words: most, host: none, forwarded: none}
	addresses := make([]int, most)
	for _, words := range heads {
		for i, word := range words {
			if isAddressList(word) {
				addresses[i]++
			}
		}
	}
	// of equals the place that leaves two words for identity and user
	if l.client = slices.Index(addresses, slices.Max(addresses)); most >= 3 && addresses[most-3] == addresses[l.client] {
		l.client = most - 3
	}
	if addresses[l.client] == 0 {
		l.client = 0
		return l
	}
	absent := 0 // as an X-Forwarded-For often is
	for _, words := range heads {
		if l.client < len(words) && words[l.client] == "-" {
			absent++
		}
	}
	l.addresses = addresses[l.client]*2 > len(heads)-absent
	l.list = anyWord(heads, l.client, func(word string) bool { return strings.Contains(word, ", ") })
	for _, place := range []int{l.client - 1, l.client + 1} {
		switch {
		case place < 0 || place >= most:
		case place < l.client && mostWords(heads, place, func(word string) bool { return word == "-" || isForwarded(word) }):
			l.forwarded = place
		case l.host == none && mostWords(heads, place, looksLikeHost):
			l.host = place
		}
	}
	return l
}

// isAddressList reports whether a word is an address, or a list that ends with one.
func isAddressList(word string) bool {
	if comma := strings.LastIndex(word, ", "); comma >= 0 {
		word = word[comma+2:]
	}
	_, ok := address(word)
	return ok
}

// looksLikeHost reports whether a word looks like a host with a domain or a port.
func looksLikeHost(word string) bool { return strings.ContainsAny(word, ".:") || word == "localhost" }

func anyWord(heads [][]string, place int, is func(word string) bool) bool {
	return slices.ContainsFunc(heads, func(words []string) bool { return place < len(words) && is(words[place]) })
}

// mostWords reports whether more than half of the words at a place are of a kind.
func mostWords(heads [][]string, place int, is func(word string) bool) bool {
	count := 0
	for _, words := range heads {
		if place < len(words) && is(words[place]) {
			count++
		}
	}
	return count > len(heads)/2
}

// read reads a head into an entry. It is false for one that does not have the layout.
func (l *headLayout) read(head string, e *Entry) bool {
	if l.client == 0 && l.host == none && !l.list {
		client, rest, found := strings.Cut(head, " ")
		_, user, more := strings.Cut(rest, " ")
		if found && more && l.words == 3 && !strings.HasSuffix(client, ",") {
			user = strings.TrimSpace(user)
			e.setClient(client)
			e.User = noneIfDash(user)
			return !l.addresses || strings.IndexByte(user, ' ') < 0 || IsAddress(client)
		}
	}
	words := headWords(head)
	if len(words) != l.words && !l.userHasBlanks(words) {
		return false
	}
	e.setClient(words[l.client])
	if l.host != none {
		e.Host, e.schemeless, e.hostBehind = noneIfDash(words[l.host]), true, l.host > l.client
	}
	if l.forwarded != none {
		e.setHeader(forwardedFor, noneIfDash(words[l.forwarded]))
	}
	if user := l.client + 2; user < len(words) {
		e.User = noneIfDash(strings.TrimSpace(strings.Join(words[user:], " ")))
	}
	return true
}

// userHasBlanks reports whether a head with more words than the layout has them by its user. The words before the client
// may be what a client wrote, so no other word may pass as the client's.
func (l *headLayout) userHasBlanks(words []string) bool {
	switch {
	case len(words) < l.words:
		return false
	case !l.addresses:
		return l.client == 0
	case l.words-l.client < 3:
		return false // there is no user
	}
	isClient := func(i int) bool {
		return i+1 < len(words) && IsAddress(words[i]) && (words[i+1] == "-" || l.host == i+1)
	}
	if !isClient(l.client) {
		return false
	}
	for i := l.client + 1; i < len(words); i++ {
		// in a list a proxy has written its peer behind what the client wrote
		if l.client > 0 && isClient(i) || l.list && strings.Contains(words[i], ",") {
			return false
		}
	}
	return true
}

// place says where the client stands.
func (l *headLayout) place() string {
	const ordinals = "first second third fourth fifth sixth"
	place := "sixth or a later"
	if names := strings.Fields(ordinals); l.client < len(names) {
		place = names[l.client]
	}
	if l.list {
		return "the last address in the " + place + " word"
	}
	return "the " + place + " word"
}
