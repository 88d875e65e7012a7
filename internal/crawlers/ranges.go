package crawlers

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Ranges are ranges of addresses, sorted and without overlaps.
type Ranges struct{ first, last []netip.Addr }

const (
	mostRanges    = 1 << 16
	mostAddresses = 1 << 22 // of IPv4: Google's crawlers have fewer than 2^14, a cloud more
	widestIPv4    = 8       // bits
	widestIPv6    = 16
)

// Contains reports whether an address is in one of the ranges.
func (r *Ranges) Contains(a netip.Addr) bool {
	i, found := slices.BinarySearchFunc(r.first, a, netip.Addr.Compare)
	return found || i > 0 && a.Compare(r.last[i-1]) <= 0 && a.BitLen() == r.last[i-1].BitLen()
}

// Len returns how many ranges there are.
func (r *Ranges) Len() int { return len(r.first) }

// ParseRanges reads a list of ranges and addresses: a JSON document, or one in each line. A list that a crawler's operator can
// hardly mean is an error.
func ParseRanges(text []byte) (*Ranges, error) {
	text = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(text), []byte("\ufeff")))
	read := ofLines
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		read = ofJSON
	}
	prefixes, err := read(text)
	if err != nil {
		return nil, err
	}
	return newRanges(prefixes)
}

// newRanges sorts prefixes, and leaves out those within others.
func newRanges(prefixes []netip.Prefix) (*Ranges, error) {
	switch {
	case len(prefixes) == 0:
		return nil, errors.New("it has no address and no range")
	case len(prefixes) > mostRanges:
		return nil, fmt.Errorf("it has more than %d ranges", mostRanges)
	}
	for _, p := range prefixes {
		if p.Addr().Is4() && p.Bits() < widestIPv4 || p.Addr().Is6() && p.Bits() < widestIPv6 {
			return nil, fmt.Errorf("the range %v is too wide for a crawler", p)
		}
	}
	r := Merge(prefixes)
	if addresses := r.countIPv4(); addresses > mostAddresses {
		return nil, fmt.Errorf("its ranges have %d addresses of IPv4, more than a crawler: it is the list of a cloud, with its customers",
			addresses)
	}
	return r, nil
}

// Merge returns ranges in their canonical form, whatever their number and width. It sorts the slice.
func Merge(prefixes []netip.Prefix) *Ranges {
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	r := new(Ranges)
	for _, p := range prefixes {
		first := p.Addr()
		if n := len(r.last); n > 0 && first.BitLen() == r.last[n-1].BitLen() && first.Compare(r.last[n-1]) <= 0 {
			continue
		}
		r.first, r.last = append(r.first, first), append(r.last, lastOf(p))
	}
	return r
}

// countIPv4 returns how many addresses of IPv4 the ranges have.
func (r *Ranges) countIPv4() (addresses uint64) {
	for i, first := range r.first {
		if first.Is4() {
			from, to := first.As4(), r.last[i].As4()
			addresses += uint64(binary.BigEndian.Uint32(to[:])-binary.BigEndian.Uint32(from[:])) + 1
		}
	}
	return addresses
}

// lastOf returns the last address of a range.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(b) // it has the length of an address
	return last
}

// ofLines reads the first field of each line. Behind a range, a geofeed (RFC 8805) has places.
func ofLines(text []byte) (prefixes []netip.Prefix, err error) {
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n,;", r) })
		if len(fields) == 0 {
			continue
		}
		p, ok := parseRange(fields[0])
		if !ok {
			return nil, fmt.Errorf("line %d begins with no address and no range", number)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

// ofJSON reads the ranges in a JSON document: texts in arrays, and of members whose name is about addresses.
func ofJSON(text []byte) ([]netip.Prefix, error) {
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, errors.New("it begins as JSON and is none, or half of it")
	}
	return appendJSON(nil, document)
}

// memberWords are parts of the names that members with ranges have, in lower case.
var memberWords = []string{"ip", "prefix", "cidr", "net", "range", "addr"}

func appendJSON(prefixes []netip.Prefix, value any) (_ []netip.Prefix, err error) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if prefixes, err = appendElement(prefixes, element); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name, member := range value {
			if prefixes, err = appendMember(prefixes, strings.ToLower(name), member); err != nil {
				return nil, err
			}
		}
	}
	return prefixes, nil
}

func appendElement(prefixes []netip.Prefix, element any) ([]netip.Prefix, error) {
	text, isText := element.(string)
	if !isText {
		return appendJSON(prefixes, element)
	}
	if p, ok := parseRange(text); ok {
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

func appendMember(prefixes []netip.Prefix, name string, member any) ([]netip.Prefix, error) {
	text, isText := member.(string)
	if !isText {
		return appendJSON(prefixes, member)
	}
	p, ok := parseRange(text)
	switch {
	case !ok && strings.HasSuffix(name, "prefix"):
		return nil, errors.New("a member whose name ends with prefix has no range")
	case ok && slices.ContainsFunc(memberWords, func(word string) bool { return strings.Contains(name, word) }):
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

// parseRange reads a range, or an address as a range of one. IPv4 in IPv6 becomes IPv4.
func parseRange(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		if p.Addr().Is4In6() {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		return p.Masked(), p.IsValid()
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), true
}
