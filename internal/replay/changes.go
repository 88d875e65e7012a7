package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// Changes counts the requests of a policy that are treated otherwise than before keys were folded, requests looked first, and match
// met paths in all their forms: see docs/upgrading.md.
type Changes struct {
	// Requests counts the requests of which the following tells.
	Requests int64 `json:"requests"`

	// OtherKeys counts the requests whose key has another text. KeysBefore and KeysNow are how many keys the readable requests
	// had, and have.
	OtherKeys  int64 `json:"other_keys"`
	KeysBefore int   `json:"keys_before"`
	KeysNow    int   `json:"keys_now"`

	// Examples are some of these keys: at most three that were several, or one that was not.
	Examples []KeyChange `json:"examples"`

	// Unreadable are the requests whose key cannot be read any more, by what is wrong.
	Unreadable []UnreadableChange `json:"unreadable"`

	// LookFirst counts the requests that take nothing before their response.
	LookFirst int64 `json:"look_first"`

	// NewlyMet counts the requests that match did not meet.
	NewlyMet int64 `json:"newly_met"`

	// Redacted counts the requests that were not compared, because the log hides a value of their key.
	Redacted int64 `json:"redacted"`

	// Untold are the placeholders of the key that logs do not have.
	Untold []string `json:"untold"`

	before map[string]bool
	now    map[string]string // each key, and what it was at first
}

// KeyChange is a key with what it was before: two different keys, or one.
type KeyChange struct {
	Before []string `json:"before"`
	Now    string   `json:"now"`
}

// UnreadableChange counts the requests whose key is unreadable for a reason.
type UnreadableChange struct {
	Placeholder string `json:"placeholder"`
	Reason      string `json:"reason"` // as in caddy_redis_ratelimit_invalid_values_total
	Requests    int64  `json:"requests"`
	Refused     int64  `json:"refused"` // with status 400; the others count by the address
}

// NewChanges returns changes of a policy whose key has placeholders that logs do not have.
func NewChanges(untold []string) *Changes {
	return &Changes{
		Untold: append([]string{}, untold...), Examples: []KeyChange{}, Unreadable: []UnreadableChange{},
		before: map[string]bool{}, now: map[string]string{},
	}
}

const (
	shownChanges   = 3   // examples of keys
	shownKey       = 60  // characters of a key
	keptUnreadable = 100 // reasons; each placeholder has few
)

// AddKeys counts a request by its key, and by what the key was before.
func (c *Changes) AddKeys(before, now string) {
	if before != now {
		c.OtherKeys++
	}
	if !c.before[before] {
		before = strings.Clone(before) // which may be part of a line
		c.before[before] = true
		c.KeysBefore++
	}
	first, known := c.now[now]
	if !known {
		first = strings.Clone(before)
		c.now[strings.Clone(now)] = first
		c.KeysNow++
	}
	c.addExample(first, before, now)
}

// addExample keeps a key that was two, or the first that was another one.
func (c *Changes) addExample(first, before, now string) {
	switch {
	case first == before && (before == now || len(c.Examples) > 0):
		return
	case len(c.Examples) > 0 && len(c.Examples[0].Before) == 1 && first != before:
		c.Examples = c.Examples[:0]
	}
	if len(c.Examples) == shownChanges || slices.ContainsFunc(c.Examples, func(e KeyChange) bool { return e.Now == now }) {
		return
	}
	was := []string{strings.Clone(first)}
	if first != before {
		was = append(was, strings.Clone(before))
	}
	c.Examples = append(c.Examples, KeyChange{Before: was, Now: strings.Clone(now)})
}

// AddUnreadable counts a request whose key is unreadable, because of a placeholder.
func (c *Changes) AddUnreadable(placeholder, reason string, refused bool) {
	at := slices.IndexFunc(c.Unreadable, func(u UnreadableChange) bool { return u.Placeholder == placeholder && u.Reason == reason })
	if at < 0 {
		at = min(len(c.Unreadable), keptUnreadable-1)
		if at == len(c.Unreadable) {
			c.Unreadable = append(c.Unreadable, UnreadableChange{Placeholder: placeholder, Reason: reason})
		}
	}
	c.Unreadable[at].Requests++
	if refused {
		c.Unreadable[at].Refused++
	}
}

// lines returns the changes in words, which are safe on a terminal.
func (c *Changes) lines() (lines []string) {
	tell := func(n int64, format string, values ...any) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("  changed: %s %s", display.Counted(n, "request"), fmt.Sprintf(format, values...)))
		}
	}
	tell(c.NewlyMet, "that match did not meet before")
	tell(c.OtherKeys, "with another key (%s); %s before, %s now", display.Percent(c.OtherKeys, c.Requests),
		display.Counted(c.KeysBefore, "key"), display.Count(c.KeysNow))
	for _, e := range c.Examples {
		before := make([]string, len(e.Before))
		for i, key := range e.Before {
			before[i] = display.EscapeShort(key, shownKey)
		}
		lines = append(lines, fmt.Sprintf("    %s -> %s", strings.Join(before, " and "), display.EscapeShort(e.Now, shownKey)))
	}
	for _, u := range c.Unreadable {
		tell(u.Requests, "whose %s is unreadable (%s): %s", display.EscapeShort(u.Placeholder, shownKey), u.Reason, u.outcome())
	}
	tell(c.LookFirst, "that look first, and take nothing before their response")
	if len(lines) == 0 {
		lines = append(lines, "  changed: nothing that this log shows")
	}
	if c.Redacted > 0 {
		lines = append(lines, fmt.Sprintf("  not compared: %s with a redacted value in the key", display.Counted(c.Redacted, "request")))
	}
	if len(c.Untold) > 0 {
		untold := display.EscapeShort(strings.Join(c.Untold, ", "), 3*shownKey)
		lines = append(lines, "  not compared: "+untold+", as logs have neither cookies nor credentials")
	}
	return lines
}

// outcome says what becomes of the requests.
func (u *UnreadableChange) outcome() string {
	switch u.Refused {
	case 0:
		return "count by the address"
	case u.Requests:
		return "get 400"
	}
	return display.Count(u.Refused) + " of them get 400"
}
