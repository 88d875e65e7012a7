// Package replay plays access logs through rate limits on a virtual clock, and tells whom they would
// have refused.
//
// It reads logs with [accesslog], has every request decided by an [Engine], and gathers what came of
// it in a [Result], which becomes a table, JSON or an HTML report. What it keeps grows with the number
// of clients, never with that of the lines.
package replay

import "time"

// Result is what a replay has found. Times are those of the log; in JSON, durations are in seconds. All text in it is as it was in the
// log, which is hostile input: whoever shows it escapes it.
type Result struct {
	// Requests counts the requests that were played, Denied those that a policy refused.
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`

	// Clients counts the addresses or host names, ClientsDenied those that were refused at least once.
	Clients       int `json:"clients"`
	ClientsDenied int `json:"clients_denied"`

	// First and Last are when the first and the last request arrived.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`

	// Unlimited counts the requests that met no policy, Exempt those of exempt clients, Rejected those
	// refused because a key was empty, Unplayable those that no server would have understood.
	Unlimited  int64 `json:"unlimited"`
	Exempt     int64 `json:"exempt"`
	Rejected   int64 `json:"rejected"`
	Unplayable int64 `json:"unplayable"`

	// Peak is the minute with the most requests.
	Peak Minute `json:"peak_minute"`

	// Policies are in the order of their names.
	Policies []PolicyResult `json:"policies"`

	// Timeline is the requests over time, in steps of Step.
	Timeline []Bucket      `json:"timeline"`
	Step     time.Duration `json:"step"`

	// Suggestions are what --suggest has found; nil without it.
	Suggestions *Suggestions `json:"suggestions,omitempty"`

	// Log tells what was read, and how well.
	Log LogReport `json:"log"`

	// Skipped are the handlers of the configuration that were left out.
	Skipped []string `json:"skipped_handlers"`

	// Warnings are sentences about what makes the result less than exact.
	Warnings []string `json:"warnings"`
}

// Minute is a minute of the log.
type Minute struct {
	Begins   time.Time `json:"begins"`
	Requests int64     `json:"requests"`
	Denied   int64     `json:"denied"`
}

// Bucket is a step of the timeline.
type Bucket struct {
	Begins   time.Time `json:"begins"`
	Requests int64     `json:"requests"`
	Denied   int64     `json:"denied"`
}

// PolicyResult is what one policy decided.
type PolicyResult struct {
	// Settings are the policy's own.
	Name      string        `json:"name"`
	Algorithm string        `json:"algorithm"`
	Limit     int64         `json:"limit"`
	Window    time.Duration `json:"window"`
	Burst     int64         `json:"burst,omitempty"`
	Key       string        `json:"key"` // the template, of the first handler that has the policy
	DryRun    bool          `json:"dry_run,omitempty"`

	// LimitFrom and BurstFrom are the placeholders whose values count instead of Limit and Burst
	// where they are possible ones.
	LimitFrom string `json:"limit_from,omitempty"`
	BurstFrom string `json:"burst_from,omitempty"`

	// MaxDelay is for how long a request is held instead of refused. CountIf tells that only requests
	// with certain responses count. Charge is what is charged after the response: a placeholder, or
	// response_bytes.
	MaxDelay time.Duration `json:"max_delay,omitempty"`
	CountIf  bool          `json:"count_if,omitempty"`
	Charge   string        `json:"charge,omitempty"`

	// Requests counts the requests that met the policy, Denied those that it refused, or, in a dry
	// run, would have.
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`

	// Clients counts the keys, ClientsDenied those that were refused at least once.
	Clients       int `json:"clients"`
	ClientsDenied int `json:"clients_denied"`

	// EmptyKeys counts the requests whose key was empty in the log.
	EmptyKeys int64 `json:"empty_keys,omitempty"`

	// Worst are the keys that were denied most, the worst first; at most as many as asked for.
	Worst []ClientResult `json:"worst_clients"`

	// PeakRates tells how many keys had which peak: the most units that they asked for in any window.
	PeakRates []PeakRate `json:"peak_rates"`

	// Timeline is the policy's part in that of the result, step by step.
	Timeline []Bucket `json:"timeline"`
}

// ClientResult is what became of one key.
type ClientResult struct {
	Key      string `json:"key"`
	Requests int64  `json:"requests"`
	Denied   int64  `json:"denied"`

	// FirstDenied is when the key was first refused. LongestBegan and LongestLasted are its longest
	// stretch of refusals without an admitted request between, LongestDenied how many they were.
	FirstDenied   time.Time     `json:"first_denied"`
	LongestBegan  time.Time     `json:"longest_began"`
	LongestLasted time.Duration `json:"longest_lasted"`
	LongestDenied int64         `json:"longest_denied"`
}

// PeakRate is how many keys had a peak of From to To units in a window, both included.
type PeakRate struct {
	From    int64 `json:"from"`
	To      int64 `json:"to"`
	Clients int   `json:"clients"`
}

// LogReport is what was read of the logs.
type LogReport struct {
	Files     []FileReport `json:"files"`
	Lines     int64        `json:"lines"`
	Malformed int64        `json:"malformed"`
	Other     int64        `json:"other"` // lines that are no requests, such as Caddy's own messages
	Late      int64        `json:"late"`  // requests that stood too far behind later ones to be sorted
	First5    []BadLine    `json:"malformed_examples,omitempty"`

	// LatestBy is by how much the latest request stood too far behind.
	LatestBy time.Duration `json:"latest_by,omitempty"`
}

// FileReport is one file that was read.
type FileReport struct {
	Name   string `json:"name"`
	Format string `json:"format"`
	Lines  int64  `json:"lines"`
	Error  string `json:"error,omitempty"`
}

// BadLine is a line that could not be read. Its text is shortened and printable.
type BadLine struct {
	Where  string `json:"where"`
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

// Suggestions tell how other limits would have done on the same traffic.
type Suggestions struct {
	// Policy is whose key and window were used; Key is the key's template.
	Policy string        `json:"policy"`
	Key    string        `json:"key"`
	Window time.Duration `json:"window"`

	Requests int64 `json:"requests"`
	Clients  int   `json:"clients"`

	// OwnLimit is the policy's own limit where the ladders show the policy as it is; 0 where they try
	// another window, other keys, or not all that the policy does.
	OwnLimit int64 `json:"own_limit,omitempty"`

	// NotTried are sentences about what of the policy is not tried.
	NotTried []string `json:"not_tried"`

	// Ladders has one for each algorithm that was tried.
	Ladders []Ladder `json:"algorithms"`

	// Differences is what a sliding window counter decides otherwise than the exact log, limit by limit.
	Differences []Difference `json:"counter_against_log"`
}

// Ladder is one algorithm with limits from low to high.
type Ladder struct {
	Algorithm string        `json:"algorithm"`
	Limits    []LimitResult `json:"limits"`

	// Untouched99, Untouched999 and Untouched100 are the smallest limits that leave 99, 99.9 and 100 %
	// of the clients untouched; 0 where not even the highest limit that was tried is enough, or there
	// was no request.
	Untouched99  int64 `json:"untouched_99"`
	Untouched999 int64 `json:"untouched_99_9"`
	Untouched100 int64 `json:"untouched_100"`
}

// LimitResult is one limit: how many requests and clients it would have refused.
type LimitResult struct {
	Limit         int64 `json:"limit"`
	Denied        int64 `json:"denied"`
	ClientsDenied int   `json:"clients_denied"`
}

// Difference is how a sliding window counter judges under one limit, against the exact log under the
// same: requests that it denied though the log admits them, and the other way round.
type Difference struct {
	Limit           int64 `json:"limit"`
	DeniedWrongly   int64 `json:"denied_though_log_admits"`
	AdmittedWrongly int64 `json:"admitted_though_log_denies"`
}
