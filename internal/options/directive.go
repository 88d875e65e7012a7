package options

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"
	_ "time/tzdata" // nodes of one build have the same zones where machines have no table

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// Directive is what a configuration says of a handler: the fields of its JSON, and what a directive of a Caddyfile writes.
type Directive struct {
	Common // of all policies that leave these options out

	// The policies that a request must pass. At least one.
	Policies []*Policy `json:"policies,omitempty"`

	// What happens to a request when Redis cannot decide: `local` decides by the same policies in
	// this process, `open` lets it through, `closed` answers 503. Default: that of the app.
	FailMode limiter.FailMode `json:"fail_mode,omitempty"`

	// The status of a denial, from 400 to 599. Default: 429.
	Status int `json:"status,omitempty"`

	// Clients that are never limited and never counted: addresses, CIDR ranges and
	// `private_ranges`. Default: none.
	Exempt []string `json:"exempt,omitempty"`

	// Modules of `http.ip_sources` whose ranges are exempt as well, and may change without a reload. Default: none.
	ExemptSourcesRaw []json.RawMessage `json:"exempt_sources,omitempty" caddy:"namespace=http.ip_sources inline_key=source"`

	// The names of crawlers of the global option that are exempt as well, as far as they are verified. Default: none.
	ExemptCrawlers []string `json:"exempt_crawlers,omitempty"`

	// The headers that show a client's quota: `x_ratelimit`, `ietf` (RateLimit and
	// RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11), both, or `off`. `Retry-After`
	// comes with a denial that may pass later in any case. Default: `x_ratelimit`.
	Headers []string `json:"headers,omitempty"`

	// Adds up to so much, at random, to `Retry-After`, so that clients do not all come back at once. Waits above
	// 2,147,483 seconds are told as that, less up to so much. At most 24h. Default: 0.
	RetryJitter caddy.Duration `json:"retry_jitter,omitempty"`

	// How a refusal is answered: `auto`, in the form that the client understands: gRPC's, Connect's, MCP's, S3's, a
	// registry's, ACME's, an event stream, JSON, or a line of text; `text`, the line alone; `json` and `problem`, JSON with
	// the type application/json or application/problem+json (RFC 9457); `jsonrpc`, an error of JSON-RPC 2.0 to its requests,
	// and the line to others; `none`, without a body; `error`, by the error routes. What is written out goes before error
	// routes. Default: by an error route that can handle the status, else as `auto`.
	Answer answer.Preference `json:"answer,omitempty"`

	// What is read of a request's body for the values in it. Default: up to 1 MiB within 10 seconds.
	Body *Body `json:"body,omitempty"`

	// A path at which clients read their own quotas: GET and HEAD of it are answered with JSON and charged
	// nothing, by every policy that is enforced for the client, whatever its `match` says. It matches as
	// Caddy's path matcher does, without wildcards, and must lie within what this handler gets. Default:
	// none.
	Usage string `json:"usage,omitempty"`

	// Whether clients' keys may appear in this module's log lines about denials. Default: false.
	LogKeys bool `json:"log_keys,omitempty"`

	options ParsedOptions
	unnamed bool // a policy had no name before the defaults were set
}

// ParsedOptions are the options of a handler that are texts in JSON.
type ParsedOptions struct {
	IsDefaultStatus bool // status is not written
	Exempt          []netip.Prefix
	Headers         answer.Formats
	Usage           gate.UsagePath
}

// Parsed returns the options that are texts in JSON. The directive must be checked.
func (d *Directive) Parsed() ParsedOptions { return d.options }

// HasUnnamed reports whether a policy had no name before the defaults were set.
func (d *Directive) HasUnnamed() bool { return d.unnamed }

const (
	minStatus = 400
	maxStatus = 599

	maxRetryJitter    = 24 * time.Hour
	retryJitterBounds = "a duration from 0 to 24h, such as 5s"
)

// handlerOptions are the options of a handler itself, in the order in which errors name and check them.
var handlerOptions = []option[Directive]{
	{
		name: "policy", form: "<name>", lines: "<the options above, except name>",
	}, {
		name: "exempt", form: "<address, range or private_ranges>... [crawler <crawler>...] | crawler <crawler>... | source <module>",
		advice: "write exempt, such as exempt private_ranges", words: "whitelist allowlist allow ignore skip bypass",
		parse: func(p *optionParser, d *Directive) error {
			e, err := p.parseExempt()
			d.Exempt, d.ExemptCrawlers = append(d.Exempt, e.addresses...), append(d.ExemptCrawlers, e.crawlers...)
			d.ExemptSourcesRaw = append(d.ExemptSourcesRaw, e.sources...)
			return err
		},
		check: func(d *Directive) (err error) {
			d.options.Exempt, err = rule.ParseExempt(d.Exempt)
			return err
		},
	}, {
		name: "fail_mode", form: "local|open|closed", shown: true,
		advice: "write fail_mode closed, open or local", words: "failure_mode_deny fault_tolerant fail_open fail_closed allow_on_error",
		parse: one(func(d *Directive) *limiter.FailMode { return &d.FailMode }, text),
		check: oneOf("fail_mode", func(d *Directive) *limiter.FailMode { return &d.FailMode }, limiter.FailModes()...),
	}, {
		name: "status", form: "<400-599>", shown: true,
		advice: "write status, such as status 503", words: "limit_req_status deny_status status_code reject_status",
		parse: one(func(d *Directive) *int { return &d.Status }, number(minStatus, maxStatus)),
		fill: func(d *Directive) {
			if d.Status == 0 {
				d.Status, d.options.IsDefaultStatus = http.StatusTooManyRequests, true
			}
		},
		check: func(d *Directive) error {
			if d.Status < minStatus || d.Status > maxStatus {
				return fmt.Errorf("status %d: use a number from %d to %d", d.Status, minStatus, maxStatus)
			}
			return nil
		},
	}, {
		name: "headers", form: "off | x_ratelimit [ietf] | ietf",
		parse: some(func(d *Directive) *[]string { return &d.Headers }, answer.FormatsHint()),
		fill: func(d *Directive) {
			if len(d.Headers) == 0 {
				d.Headers = []string{answer.FormatXRateLimit}
			}
		},
		check: func(d *Directive) (err error) {
			d.options.Headers, err = answer.ParseFormats(d.Headers)
			return err
		},
	}, {
		name: "retry_jitter", form: "<duration>", shown: true, advice: "write retry_jitter, such as retry_jitter 5s", words: "jitter",
		parse: one(func(d *Directive) *caddy.Duration { return &d.RetryJitter }, duration(0, retryJitterBounds)),
		check: func(d *Directive) error {
			if d.RetryJitter < 0 || time.Duration(d.RetryJitter) > maxRetryJitter {
				return fmt.Errorf("retry_jitter %v: use %s", time.Duration(d.RetryJitter), retryJitterBounds)
			}
			return nil
		},
	}, {
		name: "answer", form: "auto|text|json|problem|jsonrpc|none|error", advice: "write answer problem", words: "problem_details",
		parse: one(func(d *Directive) *answer.Preference { return &d.Answer }, text),
		check: func(d *Directive) error {
			if !d.Answer.IsKnown() {
				return fmt.Errorf("answer %q: use %s", secretfile.Redact(d.Answer), answer.AnswersHint())
			}
			return nil
		},
	}, {
		name: "body", form: "<size> [<duration>]", shown: true,
		advice: "write body, such as body 1MiB 10s", words: "max_size max_body_size body_size",
		parse: func(p *optionParser, d *Directive) (err error) {
			d.Body, err = p.parseBody()
			return err
		},
		check: func(d *Directive) error { return d.Body.check() },
	}, {
		name: "log_keys", advice: "write log_keys", words: "log_key",
		parse: bare(func(d *Directive) *bool { return &d.LogKeys }),
	}, {
		name: "usage", form: "<path>",
		parse: one(func(d *Directive) *string { return &d.Usage }, text),
		check: func(d *Directive) (err error) {
			d.options.Usage, err = gate.ParseUsagePath(d.Usage)
			return err
		},
	},
}

// The words behind exempt that are no addresses.
const exemptCrawler, exemptSource = "crawler", "source"

// exemption is a line of exempt: addresses and names of crawlers, or a module of ranges.
type exemption struct {
	addresses, crawlers []string
	sources             []json.RawMessage
}

// parseExempt reads who is exempt.
func (p *optionParser) parseExempt() (e exemption, err error) {
	if ahead := *p.Dispenser; ahead.NextArg() && ahead.Val() == exemptSource {
		e.sources, err = p.parseExemptSource()
		return e, err
	}
	e.addresses, err = p.values("an address, a range, private_ranges, or crawler and names of crawlers")
	if i := slices.Index(e.addresses, exemptCrawler); i >= 0 {
		e.addresses, e.crawlers = e.addresses[:i:i], e.addresses[i+1:]
		if len(e.crawlers) == 0 {
			return e, p.Err("exempt crawler takes names of crawlers of the global option, such as exempt crawler google bing")
		}
	}
	return e, err
}

// parseExemptSource reads a module of ranges, with its block.
func (p *optionParser) parseExemptSource() ([]json.RawMessage, error) {
	p.NextArg()
	if !p.NextArg() {
		return nil, p.Err("exempt source takes a module of http.ip_sources, such as exempt source static 192.0.2.0/24")
	}
	name := p.Val()
	module, err := caddyfile.UnmarshalModule(p.Dispenser, "http.ip_sources."+name)
	if err != nil {
		return nil, err
	}
	return []json.RawMessage{caddyconfig.JSONModuleObject(module, "source", name, nil)}, nil
}

// Body bounds what is read of a request's body for the values in it.
type Body struct {
	// The largest body in bytes whose values can be used. From 1 to 67,108,864 (64 MiB), and at most an eighth of the app's
	// `max_bodies`. Default: 1,048,576 (1 MiB), or that eighth if it is less.
	MaxSize int64 `json:"max_size,omitempty"`

	// The time in which the body must arrive, above 0, at most 1h. Default: 10s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

const (
	defaultBodySize    = 1 << 20
	maxBodySize        = 64 << 20
	defaultBodyTimeout = 10 * time.Second
	maxBodyTimeout     = time.Hour

	// maxBodiesStep is the unit of the max_bodies that errors name.
	maxBodiesStep = 1 << 20
)

// What would be right, in errors.
const (
	bodySizeBounds    = "a size from 1B to 64MiB, such as 1MiB"
	bodyTimeoutBounds = "a duration above 0, up to 1h, such as 10s"
)

// check refuses bounds out of their own bounds. Nil and 0 are the defaults.
func (b *Body) check() error {
	switch {
	case b == nil:
	case b.MaxSize < 0 || b.MaxSize > maxBodySize:
		return fmt.Errorf("body: max_size %d: use bytes from 1 to %d, which is %s", b.MaxSize, maxBodySize, rule.FormatSize(maxBodySize))
	case b.Timeout < 0 || time.Duration(b.Timeout) > maxBodyTimeout:
		return fmt.Errorf("body: timeout %v: use %s", time.Duration(b.Timeout), bodyTimeoutBounds)
	}
	return nil
}

// Bounds returns the bounds where all bodies may have that many bytes. It refuses a size for which there is never room.
func (b *Body) Bounds(maxBodies int64) (requestbody.Bounds, error) {
	largest := requestbody.LargestBody(maxBodies)
	bounds := requestbody.Bounds{Size: int(min(defaultBodySize, largest)), Within: defaultBodyTimeout}
	if b == nil {
		return bounds, nil
	}
	if b.MaxSize > largest {
		enough := (requestbody.LimitFor(b.MaxSize) + maxBodiesStep - 1) / maxBodiesStep * maxBodiesStep
		return bounds, fmt.Errorf("body %s: a client may hold at most %s, an eighth of max_bodies %s; "+
			"write a smaller size, or memory { max_bodies %s } in the global option", rule.FormatSize(b.MaxSize),
			rule.FormatSize(largest), rule.FormatSize(maxBodies), rule.FormatSize(enough))
	}
	if b.MaxSize > 0 {
		bounds.Size = int(b.MaxSize)
	}
	if b.Timeout > 0 {
		bounds.Within = time.Duration(b.Timeout)
	}
	return bounds, nil
}
