// Package replay plays access logs through rate limits on a virtual clock, and reports which requests and
// clients they would have refused.
//
// It reads logs with [accesslog], and an [Engine] decides every request. The [Result] becomes a table, JSON or
// an HTML report. Memory grows with the number of clients, not with that of the lines.
package replay

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// Result is the result of a replay. Times are those of the log. In JSON, durations are in seconds. Its text comes
// from the log, which is hostile input: escape it to show it.
type Result struct {
	// Requests counts the requests that were played, Denied those that a policy refused.
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`

	// DeniedOff is how far Denied may be off, because the log has times in whole seconds: the difference to all requests at
	// the start of their second. It is 0 where times are exact, or windows so long that it does not matter.
	DeniedOff int64 `json:"denied_off,omitempty"`

	// NoAddresses are the clients that are no addresses.
	NoAddresses noAddresses `json:"no_addresses"`

	// Clients counts the addresses or host names, ClientsDenied those that were refused at least once.
	Clients       int `json:"clients"`
	ClientsDenied int `json:"clients_denied"`

	// First and Last are when the first and the last request arrived.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`

	// Unlimited counts the requests that met no policy, Exempt those of exempt clients, Rejected those
	// refused for an empty key, Unplayable those that no server would have accepted.
	Unlimited  int64 `json:"unlimited"`
	Exempt     int64 `json:"exempt"`
	Rejected   int64 `json:"rejected"`
	Unplayable int64 `json:"unplayable"`

	// Peak is the minute with the most requests.
	Peak bucket `json:"peak_minute"`

	// Policies are in the order of their names.
	Policies []PolicyResult `json:"policies"`

	// Timeline is the requests over time, in steps of Step.
	Timeline []bucket      `json:"timeline"`
	Step     time.Duration `json:"step"`

	// Suggestions are the result of --suggest; nil without it.
	Suggestions *suggestions `json:"suggestions,omitempty"`

	// Log reports what was read.
	Log readReport `json:"log"`

	// Skipped are the handlers of the configuration that were skipped.
	Skipped []string `json:"skipped_handlers"`

	// Warnings are sentences about what makes the result less than exact.
	Warnings []string `json:"warnings"`
}

// noAddresses counts clients that are no addresses, such as host names, and shows three of them: they may be something else
// than clients, if lines were not read as they should be.
type noAddresses struct {
	Clients  int      `json:"clients"`
	Examples []string `json:"examples"`
}

// bucket is a minute of the log, or a step of the timeline.
type bucket struct {
	Begins   time.Time `json:"begins"`
	Requests int64     `json:"requests"`
	Denied   int64     `json:"denied"`
}

// PolicyResult is the result of one policy.
type PolicyResult struct {
	display.PolicyDescription

	// Requests counts the requests that met the policy, Denied those that it refused, or would have refused
	// if it were no dry run.
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`

	// DeniedOff is how far Denied may be off, see [Result.DeniedOff].
	DeniedOff int64 `json:"denied_off,omitempty"`

	// Units are the units of these requests; nil where each has one and nothing is charged.
	Units *Units `json:"units,omitempty"`

	// Clients counts the keys, ClientsDenied those that were refused at least once.
	Clients       int `json:"clients"`
	ClientsDenied int `json:"clients_denied"`

	// EmptyKeys counts the requests whose key was empty in the log.
	EmptyKeys int64 `json:"empty_keys,omitempty"`

	// Worst are the keys that were denied most, the worst first; at most Options.Worst.
	Worst []clientResult `json:"worst_clients"`

	// Running is how many requests of a key ran at once, for a policy of max_concurrent; nil for others, and
	// without a duration in the log.
	Running *runningResult `json:"running,omitempty"`

	// Changes are what is not as it was before; nil unless they are asked for.
	Changes *Changes `json:"changes,omitempty"`

	// Timeline counts the policy's requests in the steps of the result's timeline.
	Timeline []bucket `json:"timeline"`
}

// clientResult is the result of one key.
type clientResult struct {
	Key      string `json:"key"`
	Requests int64  `json:"requests"`
	Denied   int64  `json:"denied"`

	// FirstDenied is when the key was first refused. LongestBegan, LongestLasted and LongestDenied describe
	// its longest stretch of refusals without an admitted request: its begin, its length and their number.
	FirstDenied   time.Time     `json:"first_denied"`
	LongestBegan  time.Time     `json:"longest_began"`
	LongestLasted time.Duration `json:"longest_lasted"`
	LongestDenied int64         `json:"longest_denied"`
}

// peakRate is the number of keys that had From to To requests running at once at most, both included.
type peakRate struct {
	From    int64 `json:"from"`
	To      int64 `json:"to"`
	Clients int   `json:"clients"`
}

// readReport describes the logs as far as they were read.
type readReport struct {
	Files     []fileReport `json:"files"`
	Lines     int64        `json:"lines"`
	Malformed int64        `json:"malformed"`
	Other     int64        `json:"other"` // lines without a request, such as Caddy's own messages
	Late      int64        `json:"late"`  // requests that stood too far behind later ones to be sorted

	// MalformedExamples and OtherExamples are the first lines of different kinds, five of each at most.
	MalformedExamples []accesslog.Skipped `json:"malformed_examples,omitempty"`
	OtherExamples     []accesslog.Skipped `json:"other_examples,omitempty"`

	// LatestBy is how far behind the latest of these requests stood.
	LatestBy time.Duration `json:"latest_by,omitempty"`
}

// fileReport describes one file.
type fileReport struct {
	Name     string `json:"name"`
	Format   string `json:"format"`
	Lines    int64  `json:"lines"`
	Requests int64  `json:"requests"` // of these lines

	// Client says where the lines have the client, if the file's first lines decided it; Time what their time is.
	Client string `json:"client,omitempty"`
	Time   string `json:"time,omitempty"`

	// Error is why the file was not read to its end, or that no line of it is a request.
	Error string `json:"error,omitempty"`
}

// Unread reports whether the file has something of which nothing could be played.
func (f *fileReport) Unread() bool { return f.Error != "" && f.Requests == 0 }

// Fault is what is wrong with the file, safe on a terminal; empty if nothing is.
func (f *fileReport) Fault() string {
	const most = 300 // characters, room for the line that the error may show
	if f.Error == "" {
		return ""
	}
	return display.EscapeShort(f.Name, 200) + ": " + display.EscapeShort(f.Error, most)
}

// suggestions are the results of other limits on the same traffic.
type suggestions struct {
	// Policy is the policy whose traffic was used. Key is the key's template.
	Policy string        `json:"policy"`
	Key    string        `json:"key"`
	Window time.Duration `json:"window"`

	// Calendar is the kind of calendar periods that were tried, in this time zone; Window is the longest one.
	Calendar string `json:"calendar,omitempty"`
	TimeZone string `json:"time_zone,omitempty"`

	Requests int64 `json:"requests"`
	Clients  int   `json:"clients"`

	// OwnLimit is the policy's own limit if the ladders show the policy as it is. It is 0 if they try
	// another window, other keys, or only part of the policy's options.
	OwnLimit int64 `json:"own_limit,omitempty"`

	// NotTried are sentences about options of the policy that are not tried.
	NotTried []string `json:"not_tried"`

	// Ladders has one for each algorithm that was tried.
	Ladders []Ladder `json:"algorithms"`

	// Running is how many of the requests ran at once, with limits for that; nil unless they are tried and the
	// log has durations.
	Running *runningResult `json:"running,omitempty"`
}

// Ladder is one algorithm with limits from low to high.
type Ladder struct {
	Algorithm string        `json:"algorithm"`
	Limits    []limitResult `json:"limits"`

	// Untouched99, Untouched999 and Untouched100 are the smallest limits that leave 99, 99.9 and 100 %
	// of the clients untouched; 0 if the highest limit that was tried is too low, or without requests.
	Untouched99  int64 `json:"untouched_99"`
	Untouched999 int64 `json:"untouched_99_9"`
	Untouched100 int64 `json:"untouched_100"`

	// Sample is the part of the keys that the limits were played for; nil if they were played for all. The numbers above
	// are estimates for all keys then, and Untouched are limits for the keys in the sample.
	Sample *sampleReport `json:"sample,omitempty"`
}

// limitResult is the number of requests and clients that one limit would have refused.
type limitResult struct {
	Limit         int64 `json:"limit"`
	Denied        int64 `json:"denied"`
	ClientsDenied int   `json:"clients_denied"`
}
