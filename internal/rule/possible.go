package rule

import (
	"cmp"
	"net/netip"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestvalue"
)

// This file reads keys that operators name: can a request have this key, which one is meant by it, and which addresses are in
// the key?

// CanYield reports whether the rule can make a key for a request. The answer is yes for keys that cannot be read back,
// such as the hash of a long value.
func (r *Rule) CanYield(key limiter.EncodedKey) bool { return r.canYield(key.String()) }

// canYield is [Rule.CanYield] for the text of a key, which is not yet replaced by its hash if it is long.
func (r *Rule) canYield(text string) bool {
	if r.Key.IsFixed() {
		return r.Key.key(nil) == limiter.AsEncoded(text)
	}
	if strings.HasPrefix(text, limiter.HashedMark) {
		return !r.Key.IsAddress()
	}
	if address, marked := strings.CutPrefix(text, addressMark); marked {
		value, rest := r.Key.cutValue(address)
		return r.OnEmptyKey == EmptyKeyClientIP && !r.Key.IsAddress() && rest == "" && r.Key.prefixes.isShortened(value)
	}
	_, possible := r.Key.addressesIn(text)
	return possible
}

// FoldKey returns the text of a key, of any length and encoded as [limiter.AsEncoded] expects it, with each value of the
// request as it stands in keys of requests. Other values stay, and so does a text that the rule cannot make a key of. Same says
// that the rule can make the given key, so that nothing is folded.
func (r *Rule) FoldKey(text string) (folded string, same bool) {
	if r.canYield(text) {
		return text, true
	}
	values, ok := r.Key.split(text)
	if !ok {
		return text, false
	}
	var key []byte
	for i, value := range values {
		part := &r.Key.parts[i]
		if part.Name == "" {
			key = append(key, part.literal...)
			continue
		}
		if !r.Key.Raw || !part.field.hasRaw() {
			value = part.field.fold(value, r.Key.secret).Text()
		}
		key = r.Key.appendEncoded(key, value)
	}
	if !r.canYield(string(key)) {
		return text, false
	}
	return string(key), false
}

// keyAddress is an address in a key, as the key has it.
type keyAddress struct {
	text     string
	ofClient bool // not of the client's connection
}

// addressesIn returns the addresses in a key, and reports whether the template can make the key.
func (t *KeyTemplate) addressesIn(key string) (addresses []keyAddress, possible bool) {
	values, ok := t.split(key)
	if !ok {
		return nil, false
	}
	for i, value := range values {
		part := &t.parts[i]
		switch {
		case part.address && !t.prefixes.isShortened(value), !part.address && !t.canHave(part, value):
			return nil, false
		case part.address:
			addresses = append(addresses, keyAddress{value, part.Name == clientIPName})
		}
	}
	return addresses, true
}

// canHave reports whether a text can stand in keys as the value of a placeholder.
func (t *KeyTemplate) canHave(part *keyPart, value string) bool {
	switch f := &part.field; {
	case part.Name == "" || f.kind == noField:
		return true
	case t.Raw && f.hasRaw():
		return f.readRaw(value, t.secret).Kind() == bodyvalue.KindText
	case f.isDecoded():
		return requestvalue.Fold(value).Text() == value
	default:
		return f.fold(value, t.secret).Text() == value
	}
}

// split returns the values of the placeholders in a key, by the number of the part; the value of a literal is empty. It
// reports whether the key has the form of the template, with a value for each placeholder.
func (t *KeyTemplate) split(key string) (values []string, ok bool) {
	values = make([]string, len(t.parts))
	for i := range t.parts {
		part := &t.parts[i]
		if part.Name == "" {
			rest, found := strings.CutPrefix(key, part.literal)
			if !found {
				return nil, false
			}
			key = rest
			continue
		}
		if values[i], key = t.cutValue(key); values[i] == "" {
			return nil, false
		}
	}
	return values, key == ""
}

// cutValue cuts a placeholder's value from the beginning of a key. The value ends before the first byte that values have
// encoded only.
func (t *KeyTemplate) cutValue(key string) (value, rest string) {
	var decoded []byte
	for key != "" {
		b := key[0]
		encoded, is := t.encoded(key)
		switch {
		case is:
			decoded = append(decoded, encoded)
			key = key[bodyvalue.EscapeLength:]
		case t.reserved[b]:
			return string(decoded), key
		default:
			decoded = append(decoded, b)
			key = key[1:]
		}
	}
	return string(decoded), key
}

// encoded returns the byte that is encoded at the begin of a key, as [KeyTemplate.appendEncoded] writes it: in upper case.
func (t *KeyTemplate) encoded(key string) (b byte, ok bool) {
	b, ok = bodyvalue.Unescape(key)
	return b, ok && t.reserved[b] && key[1] < 'a' && key[2] < 'a'
}

// isShortened reports whether a text is a client's address as keys have it: cut to its prefix, or the address of a unix socket.
func (p Prefixes) isShortened(value string) bool {
	if value == "" {
		return false
	}
	if value[0] == unnamedPeer[0] || value[0] == '/' {
		return true
	}
	address, _, _ := strings.Cut(value, "/")
	_, err := netip.ParseAddr(address)
	return err == nil && p.Shorten(address) == value
}

// addressesOfKey returns the addresses in a key, which may be one that takes the place of an empty key.
func (r *Rule) addressesOfKey(key limiter.EncodedKey) []keyAddress {
	if address, marked := strings.CutPrefix(key.String(), addressMark); marked {
		value, _ := r.Key.cutValue(address)
		return []keyAddress{{value, true}}
	}
	addresses, _ := r.Key.addressesIn(key.String())
	return addresses
}

// OverrideOfKey returns the override of a key without a request. The block of a range applies if the range contains all
// addresses of the key. Part is the block of a range that contains some of the addresses; nil: no range does. A block for all
// policies goes first.
func (r *Rule) OverrideOfKey(live *overrides.Live, key limiter.EncodedKey) (entry, part *overrides.Entry) {
	everywhere, some := r.blockOfKey(live, key)
	if everywhere != nil {
		return everywhere, nil
	}
	entry, part = r.ownOverrideOfKey(live, key)
	return entry, cmp.Or(some, part)
}

// ownOverrideOfKey is [Rule.OverrideOfKey] among the overrides of the rule's policy.
func (r *Rule) ownOverrideOfKey(live *overrides.Live, key limiter.EncodedKey) (entry, part *overrides.Entry) {
	found, ranges := live.Find(r.Policy.Name(), key)
	if ranges == nil || isExemption(found) {
		return found, nil
	}
	var block *overrides.Entry
	for _, address := range r.addressesOfKey(key) {
		network, err := ParseRange(address.text)
		if err != nil || !r.Key.HasAddress() {
			continue
		}
		all, some := live.BlockingNetwork(ranges, network)
		if block = overrides.Longer(block, all); all == nil && some != nil {
			part = some
		}
	}
	return underRange(found, block), part
}
