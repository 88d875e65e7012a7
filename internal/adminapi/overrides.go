package adminapi

import (
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// OverrideRequest is the body of POST /redis_ratelimit/override: whose quota, and one of Limit, Block,
// Exempt, Unban and Remove. Without a policy it is about a block of an address or a range for all policies.
type OverrideRequest struct {
	Policy Given `json:"policy,omitzero"`
	Key    Given `json:"key,omitzero"`
	All    bool  `json:"all,omitempty"`
	Range  Given `json:"range,omitzero"` // of addresses; to block alone

	Limit  *int64 `json:"limit,omitempty"`
	Burst  *int64 `json:"burst,omitempty"`
	Block  bool   `json:"block,omitempty"`
	Exempt bool   `json:"exempt,omitempty"`
	Unban  bool   `json:"unban,omitempty"`
	Remove bool   `json:"remove,omitempty"`

	Force bool `json:"force,omitempty"` // although it looks like a mistake

	For  Given  `json:"for,omitzero"` // a duration such as 90s, 2h or 7d
	Note string `json:"note,omitempty"`

	// Asker is the address that the question comes from; the zero value where it comes over a unix socket.
	Asker netip.Addr `json:"-"`
}

// comesFrom implements [asked].
func (o *OverrideRequest) comesFrom(peer netip.Addr) { o.Asker = peer }

// Actions lists the actions of a request by the names of their fields.
func (o *OverrideRequest) Actions() (names []string) {
	for _, action := range []struct {
		name  string
		given bool
	}{{"limit", o.Limit != nil}, {"block", o.Block}, {"exempt", o.Exempt}, {"unban", o.Unban}, {"remove", o.Remove}} {
		if action.given {
			names = append(names, action.name)
		}
	}
	return names
}

// The bounds of a duration of an override. An override takes a second to reach all nodes.
const (
	leastFor = time.Second
	mostFor  = 10 * 365 * 24 * time.Hour
)

// Lasts returns how long the override lasts; 0 for no end.
func (o *OverrideRequest) Lasts() (time.Duration, error) {
	if !o.For.Given {
		return 0, nil
	}
	parsed, err := caddy.ParseDuration(o.For.Text)
	switch {
	case err != nil:
		return 0, BadInput("for: use a duration such as 30m, 2h or 7d, from 1s to 3650d")
	case parsed < leastFor || parsed > mostFor:
		return 0, BadInput("for %v: use a duration from 1s to 3650d; leave it out for an override without an end", parsed)
	}
	return parsed, nil
}

// OverrideEntry is an override. Policy is absent where it blocks an address, which is Key, or a range for all policies. Until is
// absent where it has no end. NodeOnly is true while it applies on the asked node alone, because Redis was away when it was set.
type OverrideEntry struct {
	Policy string     `json:"policy,omitempty"`
	Key    *string    `json:"key,omitempty"`
	All    bool       `json:"all,omitempty"`
	Range  string     `json:"range,omitempty"`
	Limit  int64      `json:"limit,omitempty"`
	Burst  int64      `json:"burst,omitempty"`
	Block  bool       `json:"block,omitempty"`
	Exempt bool       `json:"exempt,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	Note   string     `json:"note,omitempty"`

	NodeOnly bool `json:"node_only,omitempty"`
}

// OverrideReport answers POST /redis_ratelimit/override: with the entry that was set, or with what was
// removed or lifted.
type OverrideReport struct {
	*OverrideEntry

	// Error says, with the status 503, why Unbanned counts those in a part of Redis alone.
	Error string `json:"error,omitempty"`

	// NodeOnly says that Redis does not decide, or refuses, and that this node alone does what was asked, until Redis decides again.
	NodeOnly bool `json:"node_only,omitempty"`

	// Directives counts those without a matcher in the running configuration, which refuse all requests of what is blocked for
	// all policies; nil for any other override.
	Directives *int `json:"directives,omitempty"`

	Removed  bool   `json:"removed,omitempty"`
	Unbanned *int64 `json:"unbanned,omitempty"` // also where there were none; nil unless bans were to be lifted
	Hint     string `json:"hint,omitempty"`
}

// OverridesReport answers GET /redis_ratelimit/overrides. With the status 503 Redis did not answer, and the
// overrides are those that this node knows.
type OverridesReport struct {
	Error     string          `json:"error,omitempty"`
	Overrides []OverrideEntry `json:"overrides"`
}
