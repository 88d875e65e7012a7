package adminapi

import "time"

// GET /redis_ratelimit/page answers with one document for the live page, which package livepage writes. With ?since= and
// the member next of an earlier answer it has only what is new. Instants stand where other answers have durations, so
// that an entry that stays the same is not sent again.

// PagePolicy is what a configuration says of a policy.
type PagePolicy struct {
	Sentence string       `json:"sentence"`
	Options  []PageOption `json:"options,omitempty"`
	Handlers []string     `json:"handlers,omitempty"` // the first ones
	More     int          `json:"more,omitempty"`     // handlers besides
}

// PageOption is an option as in a Caddyfile.
type PageOption struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// PageCounts is what a policy has met since its process has it, and what holds for it now.
type PageCounts struct {
	CountsReport

	// Running are the units that run on this node, Waiting the requests that wait here; nil: the policy has no such option.
	Running *int64 `json:"running,omitempty"`
	Waiting *int64 `json:"waiting,omitempty"`

	// Override is that of all clients without one of their own. ClientOverrides counts those of one client.
	Override        *OverrideEntry `json:"override,omitempty"`
	ClientOverrides int            `json:"client_overrides,omitempty"`
}

// PageTop is the keys that were denied most, as [TopReport] has them.
type PageTop struct {
	Begin time.Time `json:"begin"` // of the counts, to the second
	Keys  []PageKey `json:"keys"`
}

// Why a key is denied.
type Why string

// The reasons, the strongest first.
const (
	WhyBlocked Why = "blocked" // by an override
	WhyBanned  Why = "banned"
	WhyRunning Why = "running" // too many of its requests run
	WhyLimit   Why = "limit"   // it has used up its quota
)

// PageKey is a key that was denied often.
type PageKey struct {
	Policy string     `json:"policy"`
	Key    string     `json:"key"`
	Denied int64      `json:"denied"`
	Error  int64      `json:"error"`
	Why    Why        `json:"why"`
	Until  *time.Time `json:"until,omitempty"` // the end of a ban or of an override

	Override *OverrideEntry `json:"override,omitempty"` // that blocks it
}

// PageUsed is the keys that have used most units, denied or not. About says of when and where.
type PageUsed struct {
	About string      `json:"about"`
	Keys  []UsedEntry `json:"keys"`
}

// PageBans is the clients that are banned on any node.
type PageBans struct {
	Error    string    `json:"error,omitempty"` // why Redis could not be asked
	Complete bool      `json:"complete"`
	Total    int       `json:"total"`
	Bans     []PageBan `json:"bans"` // the longest
}

// PageBan is a client that is banned until an instant, to the second.
type PageBan struct {
	Policy   string    `json:"policy"`
	Key      string    `json:"key"`
	Until    time.Time `json:"until"`
	Offenses int64     `json:"offenses"`
}

// PageOverrides is the overrides that apply on this node. Stale says that Redis cannot be read, so that others may have
// been set or removed.
type PageOverrides struct {
	Stale     bool            `json:"stale,omitempty"`
	Total     int             `json:"total"`
	Overrides []OverrideEntry `json:"overrides"` // the first ones
}

// PageBrowsers is what became of browsers that may wait, since the process began.
type PageBrowsers struct {
	Shown      int64 `json:"shown"`      // pages that wait, shown to strangers
	Passed     int64 `json:"passed"`     // passes given
	Cookieless int64 `json:"cookieless"` // pages opened without a pass
}

// PageCrawler is how many requests have claimed a crawler since the process began, by what was known.
type PageCrawler struct {
	Name     string `json:"name"`
	Verified int64  `json:"verified"`
	Forged   int64  `json:"forged"`
	Unknown  int64  `json:"unknown"`
}

// PageNode is the node that answers.
type PageNode struct {
	Version string `json:"version"`
	Caddy   string `json:"caddy"`
	Name    string `json:"name,omitempty"`    // that its machine calls itself
	Address string `json:"address,omitempty"` // of its machine, one of IPv4 rather than of IPv6; empty: it has that of itself alone
}

// PageNodes is what the policies of all nodes have met in the last ten minutes.
type PageNodes struct {
	// Alone says why this node alone is in the sum; empty: others were asked.
	Alone string `json:"alone,omitempty"`

	Answered int                   `json:"answered"` // nodes in the sum, this one with them
	Known    int                   `json:"known"`    // nodes, with those that answered in the last minute, and do not now or in another form
	Sums     map[string]PageLately `json:"sums"`     // by policy; one that has met nothing is missing
}

// PageLately is what a policy has met in ten minutes, and what runs and waits now.
type PageLately struct {
	Requests      int64 `json:"requests"`
	Denied        int64 `json:"denied"`
	WouldBeDenied int64 `json:"would_be_denied"`
	Bans          int64 `json:"bans"`
	Running       int64 `json:"running"`
	Waiting       int64 `json:"waiting"`
}

// PageWarnings is the last warnings of the module, the last one first.
type PageWarnings []Warning
