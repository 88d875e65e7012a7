package replay

import (
	"math"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

const (
	// mostSampled is how many requests a sample keeps, 24 bytes each.
	mostSampled = 1 << 20

	// fewestKeys is how many keys a sample has at least before it leaves out keys.
	fewestKeys = 1000

	// busiestPart is the part of a sample that one key can have before it leaves out keys.
	busiestPart = 16
)

// sample keeps the requests that limits are tried on, in the order of the log. If there are too many, it keeps the
// requests of half of the keys, then of a quarter and so on. A hash of the key decides, so that the same log has the
// same sample. A few busy keys would make a sample by keys a matter of luck: their first requests stand for the others.
type sample struct {
	requests []sampledRequest
	keys     []sampledKey // all keys, also those without a request in the sample
	numbers  map[string]int32
	total    int64 // requests of all keys, in the sample or not

	most     int // requests that are kept
	mostKey  int // requests that are kept of one key
	halvings int // a key is in the sample if its hash begins with so many zero bits
	sampled  int // keys in the sample
}

// sampledRequest is one request. Times are microseconds since the Unix epoch.
type sampledRequest struct {
	at     int64
	back   int64 // when its units come back, at a refund or as a running request ends, or are charged for a look; 0: never
	weight int32 // below 0: of a look
	key    int32
}

// sampledKey is one key.
type sampledKey struct {
	name     limiter.EncodedKey
	hash     uint64
	requests int64 // also those of weight 0, which pass under any limit
	weighted int64 // those that take something
	kept     int   // of these, in the sample
}

func newSample() *sample {
	return &sample{numbers: map[string]int32{}, most: mostSampled, mostKey: mostSampled}
}

func (s *sample) has(k *sampledKey) bool { return k.hash>>(64-s.halvings) == 0 } // a shift by 64 gives 0

// add adds a request, a look by a weight below 0. Instants never decrease.
func (s *sample) add(key string, at, back, weight int64) {
	s.total++
	number, known := s.numbers[key]
	if !known {
		number = int32(len(s.keys))
		key = strings.Clone(key) // the caller's key is part of a line
		s.numbers[key] = number
		s.keys = append(s.keys, sampledKey{name: limiter.AsEncoded(key), hash: xxhash.Sum64String(key)})
		if s.has(&s.keys[number]) {
			s.sampled++
		}
	}
	k := &s.keys[number]
	k.requests++
	if weight == 0 {
		return
	}
	k.weighted++
	if !s.has(k) || k.kept >= s.mostKey {
		return
	}
	k.kept++
	s.requests = append(s.requests, sampledRequest{at: at, back: back, weight: int32(max(-highestLimit-1, min(weight, highestLimit+1))), key: number})
	for len(s.requests) > s.most {
		s.shrink()
	}
}

// shrink leaves out requests: half of those of the busiest keys while these are much of the sample, or while it has few
// keys; otherwise all requests of half of the keys.
func (s *sample) shrink() {
	busiest := 0
	for i := range s.keys {
		busiest = max(busiest, s.keys[i].kept)
	}
	if s.sampled < fewestKeys || busiest > s.most/busiestPart {
		s.mostKey = busiest / 2
	} else {
		s.halvings++
	}
	s.sampled = 0
	for i := range s.keys {
		k := &s.keys[i]
		if k.kept = 0; s.has(k) {
			s.sampled++
		}
	}
	kept := s.requests[:0]
	for _, r := range s.requests {
		if k := &s.keys[r.key]; s.has(k) && k.kept < s.mostKey {
			k.kept++
			kept = append(kept, r)
		}
	}
	s.requests = kept
}

// sampleReport is the part of the keys that the limits of a [Ladder] were played for, and how far its numbers can be from
// those of all keys.
type sampleReport struct {
	// Share is the share of the keys that was chosen, by a hash of the key: 1, 0.5, 0.25 and so on. Clients counts the
	// chosen keys, Requests those of their requests that were played.
	Share    float64 `json:"share"`
	Clients  int     `json:"clients"`
	Requests int64   `json:"requests"`

	// CutClients counts the chosen keys of which only the first requests were played: MostOfClient each. These stand
	// for all requests of the key.
	CutClients   int `json:"cut_clients,omitempty"`
	MostOfClient int `json:"most_of_client,omitempty"`

	// ErrorRequests and ErrorClients are how far the denied fractions of requests and of clients can be from those of
	// all keys, at most: two standard errors of the worst limit, beside the requests of keys that are busier than all
	// chosen ones.
	ErrorRequests float64 `json:"error_requests"`
	ErrorClients  float64 `json:"error_clients"`
}

// estimate is what is needed to conclude from the keys in a sample to all keys.
type estimate struct {
	report         sampleReport
	requests, keys float64 // all
	sampled        float64 // requests of the keys in the sample, played or not
	squares        float64 // the sum of the squares of their numbers of requests
	overlooked     float64 // the fraction of the requests of keys that are busier than all in the sample
}

// estimate returns what the sample says of all keys.
func (s *sample) estimate() *estimate {
	e := &estimate{requests: float64(s.total), keys: float64(len(s.keys))}
	e.report = sampleReport{Share: math.Ldexp(1, -s.halvings), Clients: s.sampled, Requests: int64(len(s.requests))}
	busiest := int64(0)
	for i := range s.keys {
		k := &s.keys[i]
		if !s.has(k) {
			continue
		}
		e.sampled += float64(k.requests)
		e.squares += float64(k.requests) * float64(k.requests)
		busiest = max(busiest, k.requests)
		if k.weighted > int64(k.kept) {
			e.report.CutClients++
			e.report.MostOfClient = s.mostKey
		}
	}
	for i := range s.keys {
		if k := &s.keys[i]; !s.has(k) && k.requests > busiest {
			e.overlooked += float64(k.requests) / e.requests
		}
	}
	return e
}

// complete reports whether the sample has all requests of all keys.
func (e *estimate) complete() bool { return e.report.Share == 1 && e.report.CutClients == 0 }

// denials are what one limit denies of the requests in a sample.
type denials struct {
	keys     int     // that are denied something
	requests float64 // that are denied
	squares  float64 // the sum over the keys of the squares of that
	products float64 // the sum over the keys of that times all requests of the key
}

// add adds a key. It counts a key whose requests were cut off as if it went on as it began.
func (d *denials) add(k *sampledKey, denied int32) {
	estimated := float64(denied) * float64(k.weighted) / float64(k.kept)
	d.keys++
	d.requests += estimated
	d.squares += estimated * estimated
	d.products += estimated * float64(k.requests)
}

// result returns what a limit denies of all keys, and raises the errors that are reported to those of this limit. The
// requests are a ratio estimate: keys are sampled, and their numbers of requests are known. The error of the keys adds
// four keys, two of them denied, so that it is not 0 for a limit that denies none in the sample.
func (e *estimate) result(limit int64, d *denials) limitResult {
	if e.sampled == 0 {
		return limitResult{Limit: limit}
	}
	keys := float64(e.report.Clients)
	notSampled, ratio := 1-keys/e.keys, d.requests/e.sampled
	deviations := d.squares - 2*ratio*d.products + ratio*ratio*e.squares
	ofRequests := math.Sqrt(max(0, deviations)*notSampled*keys/max(1, keys-1)) / e.sampled
	touched := (float64(d.keys) + 2) / (keys + 4)
	ofKeys := math.Sqrt(touched * (1 - touched) / (keys + 4) * notSampled)
	e.report.ErrorRequests = max(e.report.ErrorRequests, e.overlooked+2*ofRequests)
	e.report.ErrorClients = max(e.report.ErrorClients, 2*ofKeys)
	return limitResult{
		Limit: limit, Denied: int64(math.Round(d.requests * e.requests / e.sampled)),
		ClientsDenied: int(math.Round(float64(d.keys) * e.keys / keys)),
	}
}
