package adminserver

import (
	"encoding/json"
	"math"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/livepage"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// Process is what answers of all configurations have in common. [NewProcess] makes one.
type Process struct {
	pool     *storepool.Pool
	nodeName func() string
	browsers func() adminapi.PageBrowsers
	claims   func(crawler string, s crawlers.Status) int64
	page     livePage
}

// NewProcess returns what answers have in common: the stores of the process, what this machine calls itself, what became of browsers
// that may wait, and how many requests have claimed a crawler.
func NewProcess(
	pool *storepool.Pool, nodeName func() string, browsers func() adminapi.PageBrowsers, claims func(crawler string, s crawlers.Status) int64,
) *Process {
	return &Process{pool: pool, nodeName: nodeName, browsers: browsers, claims: claims, page: newLivePage()}
}

// livePage is what the process keeps for viewers of the live page. What takes time, or asks Redis, is looked up in the
// background and only while there are viewers.
type livePage struct {
	feed      *livepage.Feed
	node      livepage.Lookup[adminapi.PageNode]
	nodes     livepage.Lookup[json.RawMessage]
	store     livepage.Lookup[adminapi.StoreReport]
	bans      livepage.Lookup[adminapi.PageBans]
	top       livepage.Lookup[adminapi.PageTop]
	used      livepage.Lookup[adminapi.PageUsed]
	overrides livepage.Lookup[adminapi.PageOverrides]

	// policies are the descriptions of a configuration by name, which stay the same. They are made once they are asked for,
	// since the routes are complete then.
	policies livepage.Lookup[map[string]json.RawMessage]
}

// lookEvery is less than the second after which a viewer asks again.
const lookEvery = 900 * time.Millisecond

// newLivePage returns a page that nothing was looked up for.
func newLivePage() livePage {
	return livePage{
		feed:      livepage.NewFeed(),
		node:      livepage.Lookup[adminapi.PageNode]{Every: time.Minute, Patience: 150 * time.Millisecond},
		nodes:     livepage.Lookup[json.RawMessage]{Every: 10 * time.Second, Idle: storepool.SurveyPatience},
		store:     livepage.Lookup[adminapi.StoreReport]{Every: lookEvery, Patience: 150 * time.Millisecond},
		bans:      livepage.Lookup[adminapi.PageBans]{Every: 10 * time.Second, Patience: 150 * time.Millisecond}, // scans all keys
		top:       livepage.Lookup[adminapi.PageTop]{Every: lookEvery, Patience: 150 * time.Millisecond},
		used:      livepage.Lookup[adminapi.PageUsed]{Every: 10 * time.Second, Patience: 150 * time.Millisecond}, // asks all policies
		overrides: livepage.Lookup[adminapi.PageOverrides]{Every: lookEvery, Patience: 150 * time.Millisecond},
		policies:  livepage.Lookup[map[string]json.RawMessage]{Every: math.MaxInt64, Patience: 10 * time.Second},
	}
}
