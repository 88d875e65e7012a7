// Package tryout plays made requests through a configuration, to show whether its limits do what they seem to: after how many
// requests a policy refuses a client, and which spellings of one value have another quota although servers read them as one.
// The servers were asked by make identity, whose table is within this package.
//
// Nothing is set up but what a replay sets up, on a clock that is moved. See [simulate.Simulation].
package tryout

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/simulate"
)

// Inputs are what is given for the made requests.
type Inputs struct {
	// URLs are those of requests that are tried first. Default: all are made up.
	URLs []string

	// Method and Header are of all requests; by default what the matchers of a policy ask for, then GET, with a body POST.
	Method string
	Header http.Header

	// Body is that of all requests; nil: it is made up where a key goes by it.
	Body []byte

	// Values are those of placeholders that handlers set which are not run, by the names of a Caddyfile without braces, such as
	// http.auth.user.id, for which user.id stands.
	Values map[string]string

	// StrictPaths says that the applications answer other spellings of their paths with 404.
	StrictPaths bool
}

// Report is what was found out about all policies.
type Report struct {
	Policies []PlayedPolicy `json:"policies"`

	// Skipped are the handlers that were not run, and that a real request would meet.
	Skipped []string `json:"skipped,omitempty"`
}

// PlayedPolicy is what was found out about a policy at one handler.
type PlayedPolicy struct {
	// Name is the policy's, Limit what it allows in words.
	Name  string `json:"policy"`
	Limit string `json:"limit"`

	// Site is the host that requests were sent to, Request the first of them: method, host and target; empty: no request met the policy.
	Site    string `json:"site,omitempty"`
	Request string `json:"request,omitempty"`

	// NotPlayed is why the policy was not played; empty: it was.
	NotPlayed string `json:"not_played,omitempty"`

	// RefusedAfter is how many requests of a client passed at one instant before one was refused; -1: none was refused.
	RefusedAfter int64 `json:"refused_after,omitempty"`

	// FreeAfter is how long a request waits then. FreeWhen is set in its place: a_request_ends, where requests count that run, or never.
	// BannedFor is how long a ban lasts that begins with the refusal of a number, BannedAt; 0: nothing bans.
	FreeAfter display.DurationSeconds `json:"free_after,omitempty"`
	FreeWhen  string                  `json:"free_when,omitempty"`
	BannedFor display.DurationSeconds `json:"banned_for,omitempty"`
	BannedAt  int64                   `json:"banned_at,omitempty"`

	// AtOnce is how many of ten requests pass that come at one instant, before a response.
	AtOnce int `json:"at_once,omitempty"`

	// Other says whose quota another client takes from: own, same, or none.
	Other string `json:"another_client,omitempty"`

	// Counts and Ignores are statuses of responses that count_if counts, and that it does not; 0: without count_if, or there is none.
	Counts  int `json:"counts_status,omitempty"`
	Ignores int `json:"ignores_status,omitempty"`

	// Spellings says how many other spellings took from the same quota, or were refused or not answered.
	Spellings SpellingCounts `json:"spellings"`

	// Findings are the mistakes.
	Findings []Finding `json:"findings,omitempty"`

	// Notes are sentences about what could not be played, or was taken to be so.
	Notes []string `json:"notes,omitempty"`
}

// SpellingCounts counts the other spellings of a request.
type SpellingCounts struct {
	Same       int `json:"same_quota"`
	Refused    int `json:"refused"`
	Unanswered int `json:"unanswered"` // those that no handler with content answers
	Other      int `json:"other_quota"`
	Uncounted  int `json:"not_counted"`
}

func (c SpellingCounts) all() int { return c.Same + c.Refused + c.Unanswered + c.Other + c.Uncounted }

// Finding is a spelling that has another quota, or none.
type Finding struct {
	// Spelling is the one of so many that do the same which most servers read as Usual, a request or a value.
	Spelling string `json:"spelling"`
	Usual    string `json:"usual"`
	Times    int    `json:"times"`

	// Effect is what becomes of the request, in words, and Advice what to write instead.
	Effect string `json:"effect"`
	Advice string `json:"advice"`

	// Servers are those that read any of the spellings as the usual one.
	Servers []string `json:"servers"`

	readers int // of Spelling
}

// Failed reports whether a mistake was found.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Policies, func(p PlayedPolicy) bool { return len(p.Findings) > 0 })
}

// Whole reports whether all policies were played, and each of them refused a request.
func (r *Report) Whole() bool {
	return !slices.ContainsFunc(r.Policies, func(p PlayedPolicy) bool { return p.NotPlayed != "" || p.RefusedAfter < 0 })
}

// The values of [PlayedPolicy.FreeWhen].
const (
	whenRequestEnds = "a_request_ends"
	whenNever       = "never"
)

// outOfTime is why a policy was not played at the end of the context.
const outOfTime = "there was no time left"

// outOfReach is why a policy is not played that no request comes to at first.
const outOfReach = "it stands in routes for errors or for responses, which are not played"

// Run plays made requests through a configuration, for each of its policies at each handler. What is left at the end of the
// context is not played.
func Run(ctx context.Context, config []byte, o Inputs) (*Report, error) {
	given, err := newGiven(&o)
	if err != nil {
		return nil, err
	}
	outline := newOutline(config)
	if err := outline.check(); err != nil {
		return nil, err
	}
	simulation, err := simulate.New(config, "")
	if err != nil {
		return nil, err
	}
	defer simulation.Close()
	places := simulation.Places()
	named := map[string][]simulate.Place{}
	for _, p := range places {
		name := p.Rule.Policy.Name()
		named[name] = append(named[name], p)
	}
	report := &Report{Policies: []PlayedPolicy{}, Skipped: simulation.Skipped()}
	told := map[string]bool{}
	for i := range places {
		p := &places[i]
		t := &trial{ctx: ctx, simulation: simulation, place: p, places: named[p.Rule.Policy.Name()], given: given, setters: outline.setters}
		played := t.play()
		if text := fmt.Sprint(played); !told[text] { // a handler before found out the same
			told[text] = true
			report.Policies = append(report.Policies, played)
		}
	}
	for _, name := range outline.policies {
		if named[name] == nil {
			report.Policies = append(report.Policies, PlayedPolicy{Name: name, NotPlayed: outOfReach})
		}
	}
	return report, nil
}
