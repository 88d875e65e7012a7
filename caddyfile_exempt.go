package redisratelimit

import (
	"encoding/json"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

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
