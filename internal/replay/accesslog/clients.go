package accesslog

import "strings"

// minForAll is the number of clients below which nothing can be said of all.
const minForAll = 100

// clients judges whether clients can be told apart.
type clients struct {
	missing   int64
	peers     int64 // that stand in for a client that the log does not tell
	seen      int64
	first     string
	differ    bool  // there is another than the first
	addresses int64 // of those seen
	zeros     int64 // addresses that end as a mask leaves them
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

// word is what stands for all clients, as a filter such as replace leaves it; empty if there is none.
// Addresses and the full names of hosts are not meant: there may well be a single client.
func (c *clients) word() string {
	if c.seen < minForAll || c.differ || c.first == redacted || c.first == "localhost" || strings.ContainsAny(c.first, ".:") {
		return ""
	}
	return c.first
}
