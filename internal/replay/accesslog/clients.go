package accesslog

import "strings"

// minForAll is the smallest number of clients that allows a conclusion about all.
const minForAll = 100

// clients finds out whether a log distinguishes its clients.
type clients struct {
	missing   int64
	peers     int64 // used as clients, because the log has no client
	seen      int64
	first     string
	differ    bool  // there is a second client
	addresses int64 // among those seen
	zeros     int64 // addresses that end in zeros, as after a mask
}

func (c *clients) see(e *Entry) {
	if e.Client == "" {
		c.missing++
		return
	}
	if e.peer {
		c.peers++
	}
	if c.seen == 0 {
		c.first = strings.Clone(e.Client)
	}
	c.seen++
	c.differ = c.differ || e.Client != c.first
	last := e.Client[len(e.Client)-1]
	if (last < '0' || last > '9') && !strings.Contains(e.Client, ":") {
		return // the name of a host
	}
	c.addresses++
	if strings.HasSuffix(e.Client, ".0") || strings.HasSuffix(e.Client, "::") {
		c.zeros++
	}
}

func (c *clients) masked() bool { return c.addresses >= minForAll && c.zeros == c.addresses }

// word returns the word that stands for all clients, as a filter such as replace writes it; empty without
// one. An address or a full host name is no such word: a log may have a single client.
func (c *clients) word() string {
	if c.seen < minForAll || c.differ || c.first == redacted || c.first == "localhost" || strings.ContainsAny(c.first, ".:") {
		return ""
	}
	return c.first
}
