// Package overrides keeps what operators decide for one client, or for all clients of a policy, while
// Caddy runs: another limit, a block or an exemption, until a time or until it is removed.
//
// Nodes that share a Redis keep their overrides there, in two keys of one slot: the version, a string that every node
// reads twice a second, and the entries, a hash that is read when the version has changed. No request waits for Redis
// because of overrides. Without Redis they are kept in the process.
package overrides

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// action is what an override does with the requests that it concerns.
type action string

// The actions.
const (
	Limit  action = "limit"  // they have another limit
	Block  action = "block"  // they are refused
	Exempt action = "exempt" // the policy is left out
)

// Bounds of what is kept.
const (
	// maxEntries is the most overrides of all policies together.
	maxEntries = 10_000

	// MaxNote is the longest note, in bytes.
	MaxNote = 256

	// latest is the last end, in microseconds since the Unix epoch: the year 9999, which JSON can name.
	latest = 253_402_300_799_000_000
)

// ErrFull is the error of one more override than [maxEntries], ErrAbsent the error of removing an override that does not
// exist.
var (
	ErrFull   = errors.New("there are 10,000 overrides: remove one first")
	ErrAbsent = errors.New("there is no such override")
)

// Entry is an override: a spec for a target. Entries are never changed.
type Entry struct {
	Target
	Spec

	// Until is the instant by Redis's clock at which the override ends; zero: it has no end.
	Until time.Time

	// NodeOnly says that the override applies on this node alone, until Redis decides again.
	NodeOnly bool

	variant atomic.Pointer[variant]
}

// Spec is what an override does with the requests of its target.
type Spec struct {
	Action action `json:"do"`

	// Limit and Burst are those of the action [Limit]. Burst 0: the policy's burst, which equals the limit unless it is
	// configured.
	Limit int64 `json:"limit,omitempty"`
	Burst int64 `json:"burst,omitempty"`

	// Note is the operator's remark.
	Note string `json:"note,omitempty"`
}

// variant is a policy with the limit of an override, made of a base policy.
type variant struct{ base, policy *limiter.Policy }

// Policy returns a policy with the override's limit. If the policy cannot have the limit, because its settings have
// changed since the override was set, the policy itself is returned.
func (e *Entry) Policy(base *limiter.Policy) *limiter.Policy {
	v := e.variant.Load()
	if v == nil || v.base != base {
		v = &variant{base, base}
		if p, err := e.WithLimit(base); err == nil {
			v.policy = p
		}
		e.variant.Store(v)
	}
	return v.policy
}

// WithLimit returns a policy with the limit and burst of the spec. The error is a [*limiter.FieldError].
func (s *Spec) WithLimit(base *limiter.Policy) (*limiter.Policy, error) {
	burst := s.Burst
	if burst == 0 {
		burst = base.Settings.Burst
	}
	return base.WithLimit(s.Limit, burst)
}

// body returns the spec as it is stored. The script writes the end before it.
func (s *Spec) body() (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}

// format returns a stored value: the end in microseconds since the Unix epoch, 0 for none, and the spec.
func format(until time.Time, body string) string {
	end := int64(0)
	if !until.IsZero() {
		end = until.UnixMicro()
	}
	return strconv.FormatInt(end, 10) + " " + body
}

// parseEntry reads a field and its value. The error quotes neither, because both may hold a client's key.
func parseEntry(field, value string) (*Entry, error) {
	target, ok := parseField(field)
	end, body, found := strings.Cut(value, " ")
	micros, err := strconv.ParseInt(end, 10, 64)
	if !ok || !found || err != nil || micros < 0 || micros > latest {
		return nil, errors.New("an override in Redis has another form")
	}
	e := &Entry{Target: target}
	if micros > 0 {
		e.Until = time.UnixMicro(micros)
	}
	if err := json.Unmarshal([]byte(body), &e.Spec); err != nil {
		return nil, errors.New("an override in Redis is not the JSON that is expected")
	}
	if len(e.Note) > MaxNote {
		e.Note = strings.ToValidUTF8(e.Note[:MaxNote], "") // a later version may allow longer notes
	}
	switch {
	case e.Range.IsValid() && e.Action != Block:
		return nil, errors.New("an override of a range in Redis does not block, which this version does not know")
	case e.Action == Limit && e.Limit > 0 && e.Burst >= 0, e.Action == Block, e.Action == Exempt:
		return e, nil
	}
	return nil, errors.New("an override in Redis does what this version does not know")
}

// ended reports whether the override has ended at an instant of Redis's clock.
func (e *Entry) ended(now time.Time) bool { return !e.Until.IsZero() && !now.Before(e.Until) }
