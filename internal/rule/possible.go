package rule

import (
	"net/netip"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// This file reads keys back, for those who name one: could a request have it, and which addresses are in it?

// CanYield reports whether a request can have a key by the rule. It errs for keys that it cannot judge, such as that of a long
// value, which is a hash.
func (r *Rule) CanYield(key limiter.EncodedKey) bool {
	text := key.String()
	if r.Key.IsFixed() {
		return r.Key.Key(nil, nil) == key
	}
	if strings.HasPrefix(text, limiter.HashedMark) {
		return !r.Key.IsAddress()
	}
	if address, marked := strings.CutPrefix(text, addressMark); marked {
		value, rest := r.Key.cutValue(address)
		return r.OnEmptyKey == EmptyKeyClientIP && !r.Key.IsAddress() && rest == "" && r.Key.prefixes.isShort(value)
	}
	_, possible := r.Key.addressesIn(text)
	return possible
}

// addressesIn returns the values of addresses in a key, and reports whether the template can make it.
func (t *KeyTemplate) addressesIn(key string) (addresses []string, possible bool) {
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
		value, rest := t.cutValue(key)
		if value == "" || part.address && !t.prefixes.isShort(value) {
			return nil, false
		}
		if key = rest; part.address {
			addresses = append(addresses, value)
		}
	}
	return addresses, key == ""
}

// cutValue cuts a placeholder's value from the beginning of a key. It ends before the first byte that no value holds.
func (t *KeyTemplate) cutValue(key string) (value, rest string) {
	var decoded []byte
	for key != "" {
		b := key[0]
		switch {
		case b == '%' && len(key) >= 3 && t.isEncoded(key[1], key[2]):
			decoded = append(decoded, hexValue(key[1])<<4|hexValue(key[2]))
			key = key[3:]
		case t.reserved[b]:
			return string(decoded), key
		default:
			decoded = append(decoded, b)
			key = key[1:]
		}
	}
	return string(decoded), key
}

// isEncoded reports whether two digits stand for a byte that is encoded in values.
func (t *KeyTemplate) isEncoded(high, low byte) bool {
	const digits = "0123456789ABCDEF"
	return strings.IndexByte(digits, high) >= 0 && strings.IndexByte(digits, low) >= 0 && t.reserved[hexValue(high)<<4|hexValue(low)]
}

// hexValue is the value of a hexadecimal digit in capitals.
func hexValue(digit byte) byte {
	if digit >= 'A' {
		return digit - 'A' + 10
	}
	return digit - '0'
}

// isShort reports whether a client's address can stand so in a key: cut to its prefix, or as a unix socket has it.
func (p Prefixes) isShort(value string) bool {
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

// OverrideOfKey returns what an operator has set for a key, of which no request is known: a range counts if it holds all
// addresses of the key. The second result is a range that holds a part of them, nil for none.
func (r *Rule) OverrideOfKey(live *overrides.Live, key limiter.EncodedKey) (entry, part *overrides.Entry) {
	found, ranges := live.Find(r.Policy.Name(), key)
	if ranges == nil || isExemption(found) {
		return found, nil
	}
	var block *overrides.Entry
	values, _ := r.Key.addressesIn(key.String())
	if address, marked := strings.CutPrefix(key.String(), addressMark); marked && r.Key.HasAddress() {
		value, _ := r.Key.cutValue(address)
		values = []string{value}
	}
	for _, value := range values {
		network, err := ParseRange(value)
		if err != nil {
			continue
		}
		all, some := live.BlockingNetwork(ranges, network)
		if block = overrides.Longer(block, all); all == nil && some != nil {
			part = some
		}
	}
	return underRange(found, block), part
}
