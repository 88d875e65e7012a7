package accesslog

import "strings"

// minForMask is the number of addresses below which nothing can be said of all.
const minForMask = 100

// clients judges whether clients can be told apart.
type clients struct {
	missing   int64
	addresses int64
	zeros     int64 // addresses that end as a mask leaves them
}

func (c *clients) see(e *Entry) {
	if e.Client == "" {
		c.missing++
		return
	}
	last := e.Client[len(e.Client)-1]
	if (last < '0' || last > '9') && !strings.Contains(e.Client, ":") {
		return // the name of a host
	}
	c.addresses++
	if strings.HasSuffix(e.Client, ".0") || strings.HasSuffix(e.Client, "::") {
		c.zeros++
	}
}

func (c *clients) masked() bool { return c.addresses >= minForMask && c.zeros == c.addresses }
