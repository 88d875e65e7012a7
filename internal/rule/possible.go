package rule

import (
	"net/netip"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// This file reads keys that operators name: can a request have this key, and which addresses are in the key?

// CanYield reports whether the rule can make a key for a request. The answer is yes for keys that cannot be read back,
// such as the hash of a long value.
func (r *Rule) CanYield(key limiter.EncodedKey) bool {
	text := key.String()
	if r.Key.IsFixed() {
		return r.Key.key(nil) == key
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

// addressesIn returns the addresses in a key, and reports whether the template can make the key.
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
		if value == "" || part.address && !t.prefixes.isShortened(value) {
			return nil, false
		}
		if key = rest; part.address {
			addresses = append(addresses, value)
		}
	}
	return addresses, key == ""
}

// cutValue cuts a placeholder's value from the beginning of a key. The value ends before the first byte that values have
// encoded only.
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

// isEncoded reports whether two hexadecimal digits are a byte that is encoded in values.
func (t *KeyTemplate) isEncoded(high, low byte) bool {
	const digits = "0123456789ABCDEF"
	return strings.IndexByte(digits, high) >= 0 && strings.IndexByte(digits, low) >= 0 && t.reserved[hexValue(high)<<4|hexValue(low)]
}

// hexValue returns the value of a hexadecimal digit in upper case.
func hexValue(digit byte) byte {
	if digit >= 'A' {
		return digit - 'A' + 10
	}
	return digit - '0'
}

// isShortened reports whether a text is a client's address as keys have it: cut to its prefix, or that of a unix socket.
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

// OverrideOfKey returns the override of a key without a request. The block of a range applies if the range contains all
// addresses of the key. Part is the block of a range that contains some of them; nil: none.
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
