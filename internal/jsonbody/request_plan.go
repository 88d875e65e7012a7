package jsonbody

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// RequestPlan is the values that are read of each request's body in one pass. The zero value reads none. It must not
// be changed once a body is read.
type RequestPlan struct {
	places  []place // the first is the document
	paths   []placedPath
	longest int // bytes of the longest name that can be one of a place
	tokens  tokenPaths
}

// place is where a name on a path leads to, or a flat name at the root that is a whole path.
type place struct {
	name     []byte
	joined   []byte // the name without joints, where a name with others may be read as this one; nil: nowhere
	isASCII  bool
	parent   int
	end      bool   // of a path, so that a number or a word is kept
	strings  bool   // of one that is not for tokens alone, so that a string is kept
	children []int  // places
	lengths  uint64 // of the children's names, joined and not: a bit each, the last one for all longer names
	wide     bool   // a child's name has a character beyond ASCII
}

// placedPath is a path as places.
type placedPath struct {
	places []int // of its names, from the outermost one
	flat   int   // the place of the name at the root that is the whole path; 0: the path has one name
	bare   int   // that of the second name at the root; 0: the path has one name, or is for tokens alone
}

// nowhere is the place of what no path leads to.
const nowhere = -1

// Bounds of names in another spelling. White space around a name may be of any length.
const (
	maxFolded = 3  // times as long in another case: U+212A is another k
	maxJoints = 64 // more joints; what has more begins no name of a service, and may be any
)

// AddPath adds a path and returns its number, for [Request.Value].
func (p *RequestPlan) AddPath(path Path) int {
	number := p.addPath(path)
	placed := &p.paths[number]
	at := 0
	for _, at = range placed.places {
		p.join(at)
	}
	p.places[at].strings = true
	if len(path.names) > 1 {
		placed.bare = p.placeOf(0, path.names[1])
		p.join(placed.flat)
		p.join(placed.bare)
	}
	return number
}

// addPath adds a path whose strings are not kept.
func (p *RequestPlan) addPath(path Path) int {
	p.init()
	placed := placedPath{places: make([]int, len(path.names))}
	at := 0
	for i, name := range path.names {
		at = p.placeOf(at, name)
		placed.places[i] = at
	}
	p.places[at].end = true
	if len(path.names) > 1 {
		placed.flat = p.placeOf(0, strings.Join(path.names, "."))
	}
	p.paths = append(p.paths, placed)
	return len(p.paths) - 1
}

// init adds the place of the document.
func (p *RequestPlan) init() {
	if len(p.places) == 0 {
		p.places = []place{{}}
	}
}

// placeOf returns the place of a name within another place.
func (p *RequestPlan) placeOf(parent int, name string) int {
	for _, id := range p.places[parent].children {
		if string(p.places[id].name) == name {
			return id
		}
	}
	id := len(p.places)
	p.places = append(p.places, place{name: []byte(name), isASCII: isASCII(name), parent: parent})
	around := &p.places[parent]
	around.children = append(around.children, id)
	around.lengths |= lengthBit(len(name))
	around.wide = around.wide || !p.places[id].isASCII
	p.longest = max(p.longest, maxFolded*len(name)+maxJoints)
	return id
}

// join has names with other joints be read as that of a place. Those of the paths for tokens have all spellings that are in
// use.
func (p *RequestPlan) join(id int) {
	place := &p.places[id]
	place.joined = appendJoined(nil, place.name)
	p.places[place.parent].lengths |= lengthBit(len(place.joined))
}

// isJoint reports whether a byte joins the words of a name. Protocol Buffers take userId for user_id, and other parsers leave
// out all joints where they compare.
func isJoint(c byte) bool { return c == '_' || c == '-' }

// appendJoined appends a name without its joints.
func appendJoined(joined, name []byte) []byte {
	for _, c := range name {
		if !isJoint(c) {
			joined = append(joined, c)
		}
	}
	return joined
}

// lengthBit returns the bit of a name's length.
func lengthBit(length int) uint64 { return 1 << min(length, 63) }

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// mayHave reports whether a name may be that of a child. Without it an object of many short names would be compared
// with each child.
func (p *place) mayHave(name []byte, ascii bool) bool {
	return p.wide || !ascii || p.lengths&lengthBit(len(name)) != 0 || bytes.IndexByte(name, '_') >= 0 || bytes.IndexByte(name, '-') >= 0
}

// isNamed reports whether parsers may take a name for that of the place. Ascii is false if the name may have characters
// beyond ASCII, and isCut says that more stands behind it.
func (p *place) isNamed(name []byte, ascii, isCut bool) bool {
	switch {
	case isCut && len(p.joined) > 0:
		var space [256]byte
		return len(appendJoined(space[:0], name)) <= maxFolded*len(p.name)
	case isCut:
		return false
	case len(p.joined) == 0:
		return (!ascii || !p.isASCII || len(name) == len(p.name)) && bytes.EqualFold(name, p.name)
	case ascii && p.isASCII:
		return p.isJoined(name)
	}
	var space [256]byte
	return bytes.EqualFold(appendJoined(space[:0], name), p.joined)
}

// isJoined reports whether a name of ASCII is that of the place, in any case and with any joints.
func (p *place) isJoined(name []byte) bool {
	rest := p.joined
	for _, c := range name {
		if isJoint(c) {
			continue
		}
		if len(rest) == 0 || bodyvalue.FoldASCII(c) != bodyvalue.FoldASCII(rest[0]) {
			return false
		}
		rest = rest[1:]
	}
	return len(rest) == 0
}
