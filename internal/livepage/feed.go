package livepage

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// Document is what there is to see now.
type Document struct {
	At       time.Time
	Sections []Section
	Policies []Row // by their names, in the order of the page

	// Points returns the number of the last point of all policies, and the points behind a number.
	Points func(behind int64) (latest int64, of map[string][]storepool.Point)
}

// Section is a part of the document with a name that no other has. Its value is JSON.
type Section struct {
	Name  string
	Value json.RawMessage
}

// Row is a row of the document. About is what a configuration says, Counts are what changes with requests; both are
// JSON.
type Row struct {
	Name          string
	About, Counts json.RawMessage
}

// Feed is the parts of the last document, with the revisions that changed them. It is safe for concurrent use.
type Feed struct {
	id string // no other process has it

	mu       sync.Mutex
	revision int64 // of the last document
	complete int64 // the revision from which on only parts have changed
	order    []string
	parts    map[part]*kept
	length   int // of the last answer, in bytes
}

// part names a part of a document: a section, or what a policy is or has counted.
type part struct{ kind, name string }

// kept is a part's last value, and the revision that changed it.
type kept struct {
	value   []byte
	changed int64
}

// NewFeed returns a feed that has made no document.
func NewFeed() *Feed { return &Feed{id: rand.Text(), parts: map[part]*kept{}} }

// since is what a viewer has: the parts up to a revision, and the points up to a number.
type since struct{ revision, point int64 }

// token writes what a viewer has, for its next question.
func (f *Feed) token(s since) string {
	return f.id + "." + strconv.FormatInt(s.revision, 10) + "." + strconv.FormatInt(s.point, 10)
}

// parse reads a token. A viewer with one of another process, or with none, has nothing.
func (f *Feed) parse(token string) (s since) {
	id, rest, _ := strings.Cut(token, ".")
	revision, point, _ := strings.Cut(rest, ".")
	r, err := strconv.ParseInt(revision, 10, 64)
	p, err2 := strconv.ParseInt(point, 10, 64)
	if err != nil || err2 != nil || id != f.id || r < f.complete || r > f.revision || p < 0 {
		return since{}
	}
	return since{r, p}
}

// Answer returns the document as JSON, for a viewer with the token of its last answer; empty: it has none. These are its
// members:
//
//	next      the token for the next question
//	full      whether the viewer has to forget what it has
//	at        the time of the document
//	points    the number of the last point of all policies, and the seconds between two
//	policies  those with something new: name, about, counts, and points, each left out if it has not changed
//
// Besides there is a member for each section that has changed. Points are lists by kind, which all end with the last
// point. A list without a number above 0 is left out.
func (f *Feed) Answer(token string, d *Document) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update(d)
	has := f.parse(token)
	latest, points := d.Points(has.point)
	b := make([]byte, 0, f.length+f.length/8)
	member := func(name string, value []byte) {
		b = append(append(appendText(append(b, ','), name), ':'), value...)
	}
	b = appendText(append(b, `{"next":`...), f.token(since{f.revision, latest}))
	member("full", strconv.AppendBool(nil, has.revision == 0))
	member("at", d.At.UTC().AppendFormat(nil, `"`+time.RFC3339Nano+`"`))
	member("points", []byte(`{"last":`+strconv.FormatInt(latest, 10)+`,"step":`+
		strconv.FormatInt(int64(storepool.HistoryStep/time.Second), 10)+`,"kept":`+strconv.Itoa(storepool.HistoryPoints)+`}`))
	for _, s := range d.Sections {
		if f.parts[part{"section", s.Name}].changed > has.revision {
			member(s.Name, s.Value)
		}
	}
	b = append(b, `,"policies":[`...)
	begin := len(b)
	for i := range d.Policies {
		before := len(b)
		if before > begin {
			b = append(b, ',')
		}
		comma := len(b)
		if b = f.appendPolicy(b, &d.Policies[i], has.revision, points[d.Policies[i].Name]); len(b) == comma {
			b = b[:before]
		}
	}
	b = append(b, "]}\n"...)
	f.length = len(b)
	return b
}

// update compares the parts with those of the last document. Where policies came, went or changed places, viewers get
// a whole document.
func (f *Feed) update(d *Document) {
	f.revision++
	same := len(f.order) == len(d.Policies)
	for i := 0; same && i < len(d.Policies); i++ {
		same = f.order[i] == d.Policies[i].Name
	}
	if !same {
		f.complete, f.order = f.revision, f.order[:0]
		clear(f.parts)
		for i := range d.Policies {
			f.order = append(f.order, d.Policies[i].Name)
		}
	}
	for _, s := range d.Sections {
		f.keep(part{"section", s.Name}, s.Value)
	}
	for i := range d.Policies {
		p := &d.Policies[i]
		f.keep(part{"about", p.Name}, p.About)
		f.keep(part{"counts", p.Name}, p.Counts)
	}
}

func (f *Feed) keep(name part, value []byte) {
	switch before := f.parts[name]; {
	case before == nil:
		f.parts[name] = &kept{bytes.Clone(value), f.revision}
	case !bytes.Equal(before.value, value):
		before.value, before.changed = append(before.value[:0], value...), f.revision
	}
}

// appendPolicy appends what is new of a policy; nothing if nothing is.
func (f *Feed) appendPolicy(b []byte, p *Row, revision int64, points []storepool.Point) []byte {
	about := f.parts[part{"about", p.Name}].changed > revision
	counts := f.parts[part{"counts", p.Name}].changed > revision
	if !about && !counts && points == nil {
		return b
	}
	b = appendText(append(b, `{"name":`...), p.Name)
	if about {
		b = append(append(b, `,"about":`...), p.About...)
	}
	if counts {
		b = append(append(b, `,"counts":`...), p.Counts...)
	}
	if points != nil {
		b = appendPoints(append(b, `,"points":`...), points)
	}
	return append(b, '}')
}

// lists are the numbers of a point, by their names in the document.
var lists = []struct {
	name string
	of   func(*storepool.Point) uint32
}{
	{"requests", func(p *storepool.Point) uint32 { return p.Requests }},
	{"denied", func(p *storepool.Point) uint32 { return p.Denied }},
	{"would_be_denied", func(p *storepool.Point) uint32 { return p.WouldBeDenied }},
	{"bans", func(p *storepool.Point) uint32 { return p.Bans }},
	{"waiting", func(p *storepool.Point) uint32 { return p.Waiting }},
	{"running", func(p *storepool.Point) uint32 { return p.Running }},
}

// appendPoints appends the points of a policy, those of each kind together. A kind without a number above 0 is left out.
func appendPoints(b []byte, points []storepool.Point) []byte {
	var most storepool.Point
	for i := range points {
		most.Requests, most.Denied = max(most.Requests, points[i].Requests), max(most.Denied, points[i].Denied)
		most.WouldBeDenied, most.Bans = max(most.WouldBeDenied, points[i].WouldBeDenied), max(most.Bans, points[i].Bans)
		most.Waiting, most.Running = max(most.Waiting, points[i].Waiting), max(most.Running, points[i].Running)
	}
	b = append(b, '{')
	for _, list := range lists {
		if list.of(&most) == 0 {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), list.name...), `":[`...)
		for i := range points {
			b = append(strconv.AppendUint(b, uint64(list.of(&points[i])), 10), ',')
		}
		b[len(b)-1] = ']' // in place of the last comma
	}
	return append(b, '}')
}

// appendText appends a JSON string.
func appendText(b []byte, text string) []byte {
	encoded, _ := json.Marshal(text) // a text always has one
	return append(b, encoded...)
}
