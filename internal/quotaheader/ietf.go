package quotaheader

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// setIETF shows policies and, where they are known, quotas as structured fields (RFC 9651). For a request that is
// denied, policies that deny tell at most the longest wait; 0: it is not denied.
func setIETF(header http.Header, items []*status, longest time.Duration) {
	policies, quotas := make([]string, 0, len(items)), make([]string, 0, len(items))
	for _, s := range items {
		policies = append(policies, textsOf(s.Policy).item)
		if s.known() {
			quotas = append(quotas, quotaText(s.Check, longest))
		}
	}
	setList(header, Policy, policies)
	setList(header, Quota, quotas)
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

// policyTexts are the parts of headers that are the same in all answers about a policy.
type policyTexts struct {
	capacity string // in decimal
	item     string // of RateLimit-Policy
	name     string // as a structured field
}

// textsOf returns a policy's texts. The policy caches them.
func textsOf(p *limiter.Policy) *policyTexts {
	texts, ok := p.Derived(newPolicyTexts).(*policyTexts)
	if !ok {
		return &policyTexts{}
	}
	return texts
}

func newPolicyTexts(p *limiter.Policy) any {
	return &policyTexts{
		capacity: strconv.FormatInt(p.Capacity(), 10),
		item:     itemText(policyItem(p)),
		name:     itemText(httpsfv.NewItem(p.Name())),
	}
}

// policyItem shows how much a policy allows: q units, earned in w seconds: the window, or for a bucket
// as much of it or more as the burst is of the limit. Under one second w is absent, and with calendar
// periods, which differ in length. A policy that counts running requests has no w; its units are named
// instead.
func policyItem(p *limiter.Policy) httpsfv.Item {
	item := httpsfv.NewItem(p.Name())
	item.Params.Add("q", p.Capacity())
	if p.CountsRunning() {
		item.Params.Add("qu", "concurrent-requests")
		return item
	}
	if w := int64(earning(p, p.Capacity()) / time.Second); w >= 1 && p.Settings().Calendar == "" {
		item.Params.Add("w", w)
	}
	return item
}

// quotaText shows what a client has left: r units, and t seconds until the quota is as good as new, or,
// after a denial, until the request would pass, at most the longest wait. Nothing says when running requests end: they
// have no t. It is empty where a number is beyond what a structured field can hold. It is written for every request, which is
// why it is no httpsfv.Item.
func quotaText(c *limiter.Check, longest time.Duration) string {
	name, r, wait := textsOf(c.Policy).name, c.Result.Remaining, c.Result.RetryAfter
	switch {
	case c.Result.Passes():
		wait = c.Result.ResetAfter
	case longest > 0 && wait != limiter.Never:
		wait = min(wait, longest)
	}
	timed := !c.Policy.CountsRunning() && (c.Result.Passes() || wait != limiter.Never)
	t := CeilSeconds(wait)
	if name == "" || r > maxInteger || timed && t > maxInteger {
		return ""
	}
	var space [96]byte
	text := strconv.AppendInt(append(append(space[:0], name...), ";r="...), r, 10)
	if timed {
		text = strconv.AppendInt(append(text, ";t="...), t, 10)
	}
	return string(text)
}

// maxInteger is the largest integer of a structured field.
const maxInteger = 999_999_999_999_999

// The values of the headers option.
const (
	FormatXRateLimit = "x_ratelimit"
	FormatIETF       = "ietf"
	FormatOff        = "off"
)

// ParseFormats reads the headers option: off alone, or any of the others, each once.
func ParseFormats(names []string) (f Formats, err error) {
	for _, name := range names {
		switch {
		case name == FormatXRateLimit && !f.XRateLimit:
			f.XRateLimit = true
		case name == FormatIETF && !f.IETF:
			f.IETF = true
		case name == FormatOff && len(names) == 1:
		default:
			return f, fmt.Errorf("headers %s: use off, or any of x_ratelimit and ietf, each once", name)
		}
	}
	return f, nil
}
