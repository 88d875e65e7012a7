package display

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file is the words. All of them are safe on a terminal.

// shown is how much of a text of the configuration is shown in a sentence, in characters.
const shown = 80

// short returns a text of the configuration.
func short(text string) string { return EscapeShort(text, shown) }

// limit returns the placeholder that sets the limit, and what counts otherwise.
func (p *PolicyDescription) limit() (from string, n int64) {
	if p.CountsRunning() {
		return p.MaxConcurrentFrom, p.MaxConcurrent
	}
	return p.LimitFrom, p.Limit
}

// orElse returns a number, or the placeholder that sets it and the number that counts otherwise; "0": none does.
func orElse(from, number string) string {
	switch {
	case from == "":
		return number
	case number == "0":
		return short(from)
	}
	return short(from) + ", else " + number
}

// number returns units of the policy. Bytes are a size.
func (p *PolicyDescription) number(n int64) string {
	if p.unit() == byteUnit {
		return Size(n)
	}
	return Count(n)
}

// burstText returns the burst: a number, or the placeholder that sets it and what counts otherwise.
func (p *PolicyDescription) burstText() string { return orElse(p.BurstFrom, p.number(p.Burst)) }

// windowText returns what follows "per": the length of the window, or the calendar period and its time zone.
func (p *PolicyDescription) windowText() string {
	calendar := p.Calendar
	if unit, day, found := strings.Cut(calendar, "@"); p.CalendarStartFrom != "" {
		if !found {
			day = "1"
		}
		calendar = unit + "@" + p.CalendarStartFrom + ", else " + day
	}
	return WindowText(time.Duration(p.Window), calendar, p.TimeZone)
}

// WindowText returns a window as [PolicyDescription.windowText] does.
func WindowText(window time.Duration, calendar, zone string) string {
	if calendar != "" {
		return "calendar " + short(calendar) + " (" + short(zone) + ")"
	}
	return Period(window)
}

// Sentence says what the policy allows: limit, window and key.
func (p *PolicyDescription) Sentence() string {
	from, n := p.limit()
	amount := p.number(n)
	if from != "" {
		amount = short(from) + " " + p.unit() + "s"
	} else if amount == Count(n) {
		amount = Counted(n, p.unit())
	}
	text := amount + " per " + p.windowText()
	if p.CountsRunning() {
		text = amount + " at once"
	}
	text += " for " + p.keysText()
	switch {
	case from == "":
		return text
	case p.Unlimited:
		return text + ", else unlimited"
	}
	return text + ", else " + p.number(n)
}

// What a limit counts: requests, unless one may take more or less than one unit.
const (
	requestUnit = "request"
	byteUnit    = "byte"
	timeUnit    = "millisecond"
	anyUnit     = "unit"
)

// unit is what the limit counts. Handlers that count different things share units.
func (p *PolicyDescription) unit() string {
	if len(p.Handlers) == 0 {
		return requestUnit
	}
	unit := p.Handlers[0].unit()
	for i := range p.Handlers {
		if p.Handlers[i].unit() != unit {
			return anyUnit
		}
	}
	return unit
}

func (h *Handler) unit() string {
	switch {
	case h.Cost == "response_bytes":
		return byteUnit
	case h.Cost == "backend_time":
		return timeUnit
	case h.Cost != "" || h.Weight > 1 || h.WeightFrom != "":
		return anyUnit
	}
	return requestUnit
}

// keysText says whose quota each is. Handlers may have several kinds of keys.
func (p *PolicyDescription) keysText() string {
	var keys []string
	for i := range p.Handlers {
		if text := p.keyText(p.Handlers[i].Key); !slices.Contains(keys, text) {
			keys = append(keys, text)
		}
	}
	return cmp.Or(strings.Join(keys, ", or "), "each key")
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// things are what well-known placeholders stand for, by their names, and kinds by the beginnings of names.
var things = map[string]string{
	"http.vars.client_ip": "client address", "http.request.remote.host": "address of the connection", "http.request.host": "host",
	"http.request.uri.path": "path", "http.request.uri": "path and query", "http.request.method": "method", "http.auth.user.id": "user",
}

var kinds = [][2]string{
	{"http.request.header.", "header "}, {"http.request.cookie.", "cookie "}, {"http.request.uri.query.", "query parameter "},
	{"http.vars.", "variable "}, {"http.redis_ratelimit.json.", "JSON value "}, {"http.redis_ratelimit.form.", "form field "},
}

// keyText says whose quota each is by a template of keys. The literals of the template are left out.
func (p *PolicyDescription) keyText(template string) string {
	var words []string
	for _, text := range placeholder.FindAllString(template, -1) {
		word := thing(text)
		if address, found := addresses[strings.Trim(text, "{}")]; found {
			word = p.networkText(word, address)
		}
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return "all clients together"
	}
	return "each " + strings.Join(words, " and ")
}

// addresses are the placeholders that are cut to networks, with what follows a network's prefix.
var addresses = map[string]string{"http.vars.client_ip": "", "http.request.remote.host": " of the connection"}

// The leading bits of addresses that tell clients apart by default.
const (
	defaultIPv4Prefix = 32
	defaultIPv6Prefix = 64
)

// networkText says of an address which of its networks counts, if not the default one does.
func (p *PolicyDescription) networkText(word, behind string) string {
	ipv4, ipv6 := defaultIPv4Prefix, defaultIPv6Prefix
	if p.IPv4Prefix != nil {
		ipv4 = *p.IPv4Prefix
	}
	if p.IPv6Prefix != nil {
		ipv6 = *p.IPv6Prefix
	}
	switch {
	case ipv4 != defaultIPv4Prefix:
		word = "/" + strconv.Itoa(ipv4) + behind
	case ipv6 == defaultIPv6Prefix:
		return word
	}
	return word + " (IPv6 /" + strconv.Itoa(ipv6) + ")"
}

// thing says what a placeholder stands for.
func thing(text string) string {
	name := strings.Trim(text, "{}")
	if word, known := things[name]; known {
		return word
	}
	for _, kind := range kinds {
		if rest, ok := strings.CutPrefix(name, kind[0]); ok && rest != "" {
			return kind[1] + short(rest)
		}
	}
	return short(text)
}

// Option is an option that is set, with its value in words; empty: it has none.
type Option struct{ Name, Value string }

// String returns the option as in a Caddyfile.
func (o Option) String() string { return strings.TrimSuffix(o.Name+" "+o.Value, " ") }

// options collects those that are set.
type options []Option

func (o *options) add(set bool, name, value string) {
	if set {
		*o = append(*o, Option{name, value})
	}
}

func (b *Ban) text() string {
	var words []string
	for _, d := range b.Durations {
		words = append(words, Duration(time.Duration(d)))
	}
	return strings.Join(words, ", ") + " after " + Counted(b.After, "denial")
}

func (c *Challenge) text() string {
	text := Counted(c.Passes, "pass")
	if c.Passes != 1 {
		text = Count(c.Passes) + " passes"
	}
	if c.Limit > 0 {
		text += " of " + Count(c.Limit)
	}
	return text
}

func leaseText(longest time.Duration) string {
	if longest == 0 {
		return "none: the window is too short"
	}
	return "up to " + Duration(longest)
}

func (h *Handler) costText() string {
	text := short(h.Cost)
	if h.CostFallback > 0 {
		text += ", else " + Count(h.CostFallback)
	}
	return text
}

// text says how long requests wait, how many, and how turns go.
func (w *Wait) text() string {
	text := Duration(time.Duration(w.Longest)) + ", up to " + Count(w.Most) + " of a key on a node"
	if w.By != "" {
		text += ", by " + short(w.By)
	}
	return text
}

// reserveText returns percent, units, or bytes as a size.
func (h *Handler) reserveText() string {
	bytes, err := strconv.ParseInt(h.Reserve, 10, 64)
	if err != nil || h.unit() != byteUnit {
		return short(h.Reserve)
	}
	return Size(bytes)
}

func percent(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) + "%" }

// Common returns the options that all handlers have alike.
func (p *PolicyDescription) Common() []Option {
	if len(p.Handlers) == 0 {
		return nil
	}
	common := p.Handlers[0].options()
	for i := range p.Handlers[1:] {
		others := p.Handlers[i+1].options()
		common = slices.DeleteFunc(common, func(o Option) bool { return !slices.Contains(others, o) })
	}
	return common
}

// Text describes a handler by its place and by the options that not all handlers have in common.
func (h *Handler) Text(common []Option) string {
	parts := []string{h.Place}
	if h.Place == "" {
		parts[0] = "in no route of Caddy's own"
	}
	for _, o := range h.options() {
		if o.Name == "match" || !slices.Contains(common, o) {
			parts = append(parts, o.String())
		}
	}
	return strings.Join(parts, ", ")
}

// All returns the options of the policy and of its handlers, each once.
func (p *PolicyDescription) All() []Option {
	all := p.Options()
	for i := range p.Handlers {
		for _, o := range p.Handlers[i].options() {
			if !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	return all
}

// Set returns the different values of an option of the handlers, joined by commas; empty where none has it.
func (p *PolicyDescription) Set(name string) string {
	var values []string
	for _, o := range p.All() {
		if o.Name == name {
			values = append(values, o.Value)
		}
	}
	return strings.Join(values, ", ")
}

// JoinOptions returns options as in a Caddyfile, with commas between.
func JoinOptions(options []Option) string {
	texts := make([]string, len(options))
	for i, o := range options {
		texts[i] = o.String()
	}
	return strings.Join(texts, ", ")
}
