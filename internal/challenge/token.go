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
	"hash"
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
	kindFile         kind = 3 // the browser has loaded the style sheet of a page that waits; its time is that of the page's ticket
	kindProvenTicket kind = 4 // a ticket of a browser that has to load the style sheet
	kindProvenPass   kind = 5 // the pass of a browser that has
)

// token is what a browser brings back.
type token struct {
	kind   kind
	number uint16
	time   int64 // seconds since 1970, 40 bits
}

// A token is its kind in a byte, its number in 2 bytes and its time in 5, big-endian, and the first half of the MAC of these
// and of the network. That of a style sheet has the second half of the MAC of its page's ticket, so that a page costs one MAC.
const (
	signedBytes = 8
	macBytes    = sha256.Size / 2
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

// signer makes the MACs of a secret. It is not safe for concurrent use.
type signer struct {
	mac    hash.Hash
	signed [signedBytes + len(network{})]byte
	sum    [sha256.Size]byte
}

// newSigner returns the signer of a secret.
func (s *secret) newSigner() *signer { return &signer{mac: hmac.New(sha256.New, s[:])} }

// bytes returns a token without its MAC.
func (t token) bytes() (b [signedBytes]byte) {
	binary.BigEndian.PutUint64(b[:], uint64(t.time))
	b[0] = byte(t.kind)
	binary.BigEndian.PutUint16(b[1:], t.number)
	return b
}

// macOf returns the MAC of a token for a network, until the next one: of a style sheet's token that of its page's ticket.
func (s *signer) macOf(t token, n network) *[sha256.Size]byte {
	if t.kind == kindFile {
		t.kind = kindProvenTicket
	}
	signed := t.bytes()
	copy(s.signed[copy(s.signed[:], signed[:]):], n[:])
	s.mac.Reset()
	_, _ = s.mac.Write(s.signed[:])
	s.mac.Sum(s.sum[:0])
	return &s.sum
}

// half returns the half of a MAC that a kind of tokens has.
func (k kind) half(sum *[sha256.Size]byte) []byte {
	if k == kindFile {
		return sum[macBytes:]
	}
	return sum[:macBytes]
}

// text returns the text of a token with its MAC.
func (t token) text(sum *[sha256.Size]byte) string {
	signed := t.bytes()
	var whole [signedBytes + macBytes]byte
	copy(whole[copy(whole[:], signed[:]):], t.kind.half(sum))
	return encoding.EncodeToString(whole[:])
}

// sign returns the text of a token for a network.
func (s *signer) sign(t token, n network) string { return t.text(s.macOf(t, n)) }

// parse reads the text of a token. Its MAC has to be compared.
func parse(text string) (t token, mac [macBytes]byte, ok bool) {
	var whole [signedBytes + macBytes]byte
	if len(text) != tokenLength {
		return t, mac, false
	}
	if _, err := encoding.Decode(whole[:], []byte(text)); err != nil {
		return t, mac, false
	}
	t.kind, t.number = kind(whole[0]), binary.BigEndian.Uint16(whole[1:])
	t.time = int64(binary.BigEndian.Uint64(whole[:]) & (1<<40 - 1))
	copy(mac[:], whole[signedBytes:])
	return t, mac, true
}

// isSigned reports whether a token has its MAC for a network.
func (s *signer) isSigned(t token, had [macBytes]byte, n network) bool {
	return hmac.Equal(had[:], t.kind.half(s.macOf(t, n)))
}
