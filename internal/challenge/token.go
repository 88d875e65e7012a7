// Package challenge lets browsers wait instead of being refused.
//
// A denied navigation gets a page that waits. The page leads to an exchange, which gives the browser a pass: a cookie
// with a number. Requests with a pass take from a quota of the client's key and the number. Nothing is stored, so that
// whatever is replayed, forged or hoarded, a client has one quota for each number and no more.
//
// Where the pass opens what a policy reserves, the wait counts only of a browser that has loaded the page's style sheet, as
// browsers do and crawlers that follow links do not:
//
//	GET /a?b                  429, the page: rl-wait=1, a link to the style sheet, a refresh after a second
//	GET /a?b&rl-pass=<file>   200, the style sheet: rl-wait=<file>
//	GET /a?b&rl-pass=<ticket> 302 to /a?b: rl-pass=<pass>
package challenge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"
)

const (
	// wait is how long the page waits. A ticket can be exchanged from so long after the second of its issue.
	wait = time.Second

	// mostAhead is how far the clock of the node that issued a ticket may be ahead for its browser to wait the rest out.
	mostAhead = 2 * time.Second

	// life is how long a ticket can be exchanged from then on, and how much longer its pass lasts.
	life = time.Hour

	// onceLife is how long a ticket is good, from when it can be exchanged, for the one page of a browser without cookies.
	onceLife = time.Minute

	// lateLife is how long after its end a pass is good for what is no navigation: the form of a page that was opened
	// with it.
	lateLife = 3 * time.Hour
)

// kind is what a token is good for.
type kind byte

const (
	kindTicket       kind = 1 // its time is when it can be exchanged from
	kindPass         kind = 2 // its time is when it ends
	kindFile         kind = 3 // the browser has loaded the style sheet of a page that waits; its time is when it ends
	kindProvenTicket kind = 4 // a ticket of a browser that has to load the style sheet
	kindProvenPass   kind = 5 // the pass of a browser that has
)

// token is what a browser brings back.
type token struct {
	kind   kind
	number uint16
	time   int64 // seconds since 1970, 40 bits
}

// A token is its kind in a byte, its number in 2 bytes and its time in 5, big-endian, and its MAC.
const (
	signedBytes = 8
	macBytes    = 16
	tokenLength = (signedBytes + macBytes) / 3 * 4 // in base64url, which needs no padding
)

// newNumber returns a random number of a pass.
func newNumber() uint16 { return uint16(rand.Uint32()) }

var encoding = base64.RawURLEncoding.Strict()

// network is what tokens are bound to: an address's /24 or /48 with its family, or nothing of what is no address.
type network [7]byte

// networkOf returns the network of the text of an address.
func networkOf(address string) (n network) {
	ip, _ := netip.ParseAddr(address) // which is of no family if it fails
	switch ip = ip.Unmap(); {
	case ip.Is4():
		bytes := ip.As4()
		n[0] = 4
		copy(n[1:4], bytes[:])
	case ip.Is6():
		bytes := ip.As16()
		n[0] = 6
		copy(n[1:], bytes[:])
	}
	return n
}

// secret signs tokens. All nodes have the same.
type secret [32]byte

// secretOf derives the secret of nodes that hide keys by the same text.
func secretOf(hashKeys string) secret {
	mac := hmac.New(sha256.New, []byte(hashKeys))
	_, _ = mac.Write([]byte("redis_ratelimit challenge 1"))
	return secret(mac.Sum(nil))
}

// mac returns the MAC of the bytes of a token for a network.
func (s *secret) mac(signed []byte, n network) []byte {
	mac := hmac.New(sha256.New, s[:])
	_, _ = mac.Write(signed)
	_, _ = mac.Write(n[:])
	return mac.Sum(nil)[:macBytes]
}

// sign returns the text of a token for a network.
func (s *secret) sign(t token, n network) string {
	bytes := binary.BigEndian.AppendUint64(nil, uint64(t.time))
	bytes[0] = byte(t.kind)
	binary.BigEndian.PutUint16(bytes[1:], t.number)
	return encoding.EncodeToString(append(bytes, s.mac(bytes, n)...))
}

// read returns the token of a text that the secret has signed for a network.
func (s *secret) read(text string, n network) (t token, ok bool) {
	var bytes [signedBytes + macBytes]byte
	if len(text) != tokenLength {
		return t, false
	}
	_, err := encoding.Decode(bytes[:], []byte(text))
	signed := bytes[:signedBytes]
	if err != nil || !hmac.Equal(bytes[signedBytes:], s.mac(signed, n)) {
		return t, false
	}
	t.kind, t.number = kind(signed[0]), binary.BigEndian.Uint16(signed[1:])
	t.time = int64(binary.BigEndian.Uint64(signed) & (1<<40 - 1))
	return t, true
}
