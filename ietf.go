package redisratelimit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// The headers of draft-ietf-httpapi-ratelimit-headers-11, in the form that Go's header map has.
const (
	headerIETFPolicy = "Ratelimit-Policy"
	headerIETF       = "Ratelimit"
)

// setIETF shows policies' quotas and, where they are known, shares as structured fields (RFC 9651).
func setIETF(header http.Header, items []*quotaStatus) {
	policies, shares := make([]string, 0, len(items)), make([]string, 0, len(items))
	for _, s := range items {
		policies = append(policies, s.Policy.Text(quotaText))
		if s.known() {
			shares = append(shares, itemText(shareItem(s.Check)))
		}
	}
	setList(header, headerIETFPolicy, policies)
	setList(header, headerIETF, shares)
}

// setList sets a header to a list of items, unless one of them cannot be written.
func setList(header http.Header, name string, items []string) {
	if !slices.Contains(items, "") {
		header[name] = []string{strings.Join(items, ", ")}
	}
}

// itemText writes an item of a list. It is empty where a number is beyond the 15 digits that a
// structured field can hold.
func itemText(item httpsfv.Item) string {
	text, err := httpsfv.Marshal(item)
	if err != nil {
		return ""
	}
	return text
}

// quotaText is a policy's item, made once for all answers.
func quotaText(p *limiter.Policy) string { return itemText(quotaItem(p)) }

// quotaItem says how much a policy allows: q units, earned in w seconds: the window, or for a bucket
// as much of it or more as the burst is of the limit.
func quotaItem(p *limiter.Policy) httpsfv.Item {
	item := httpsfv.NewItem(p.Name())
	item.Params.Add("q", p.Capacity())
	if w := int64(earning(p, p.Capacity()) / time.Second); w >= 1 {
		item.Params.Add("w", w)
	}
	return item
}

// shareItem says what a client has left: r units, and how long until there is more to say, t
// seconds: until the share is as good as new, or, where it denied, until the request would pass.
func shareItem(c *limiter.Check) httpsfv.Item {
	item := httpsfv.NewItem(c.Policy.Name())
	item.Params.Add("r", c.Result.Remaining)
	switch {
	case c.Result.Passes():
		item.Params.Add("t", ceilSeconds(c.Result.ResetAfter))
	case c.Result.RetryAfter != limiter.Never:
		item.Params.Add("t", ceilSeconds(c.Result.RetryAfter))
	}
	return item
}

// formats are the headers that a handler shows.
type formats struct{ xRateLimit, ietf bool }

// The values of the headers option.
const (
	formatXRateLimit = "x_ratelimit"
	formatIETF       = "ietf"
	formatOff        = "off"
)

// parseFormats reads the headers option.
func parseFormats(names []string) (f formats, err error) {
	for _, name := range names {
		switch {
		case name == formatXRateLimit && !f.xRateLimit:
			f.xRateLimit = true
		case name == formatIETF && !f.ietf:
			f.ietf = true
		case name == formatOff && len(names) == 1:
		default:
			return f, fmt.Errorf("headers %s: use off, or any of x_ratelimit and ietf, each once", name)
		}
	}
	return f, nil
}
