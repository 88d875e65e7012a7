package bodyvalue

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// JSONPlan is the values that are read of each request's body in one pass. The zero value reads none. It must not
// be changed once a body is read.
type JSONPlan struct {
	places  []place // the first is the document
	paths   []placedPath
	longest int // bytes of the longest name that can be one of a place
	tokens  tokenPaths
	calls   bool // those of a batch are counted
}

// place is where a name on a path leads to, or a flat name at the root that is a whole path.
type place struct {
	name     []byte
	joined   []byte // the name without joints, where a name with others may be read as this one; nil: nowhere
	parent   int
	end      bool // of a path, so that a number or a word is kept
	strings  bool // of one that is not for tokens alone, so that a string is kept
	children []child
	lengths  uint64 // in characters of the children's names, joined and not: a bit each, the last one for all longer names
}

// child is a place within another one.
type child struct {
	id       int
	runes    int  // characters of the name, of the joined one if there is one
	isJoined bool // there is a joined name
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
	foldedGrowth = 3  // times as long in another case: U+212A is another k
	maxJoints    = 64 // more joints; what has more begins no name of a service, and may be any
)

// AddPath adds a path and returns its number, for [JSONReader.Value].
func (p *JSONPlan) AddPath(path JSONPath) int {
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
func (p *JSONPlan) addPath(path JSONPath) int {
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
func (p *JSONPlan) init() {
	if len(p.places) == 0 {
		p.places = []place{{}}
	}
}

// placeOf returns the place of a name within another place.
func (p *JSONPlan) placeOf(parent int, name string) int {
	for _, c := range p.places[parent].children {
		if string(p.places[c.id].name) == name {
			return c.id
		}
	}
	id := len(p.places)
	p.places = append(p.places, place{name: []byte(name), parent: parent})
	around, runes := &p.places[parent], utf8.RuneCountInString(name)
	around.children = append(around.children, child{id: id, runes: runes})
	around.lengths |= lengthBit(runes)
	p.longest = max(p.longest, foldedGrowth*len(name)+maxJoints)
	return id
}

// join has names with other joints be read as that of a place. Those of the paths for tokens have all spellings that are in
// use.
func (p *JSONPlan) join(id int) {
	place := &p.places[id]
	place.joined = appendJoined(nil, place.name)
	if len(place.joined) == 0 {
		return
	}
	around, runes := &p.places[place.parent], utf8.RuneCount(place.joined)
	around.lengths |= lengthBit(runes)
	for i := range around.children {
		if c := &around.children[i]; c.id == id {
			c.runes, c.isJoined = runes, true
		}
	}
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

// spelling is a name as a body has it, to be compared with those of places. An object may have a hundred thousand of them,
// so that what all comparisons need is computed once, and most names are told apart by their length: no case and no joint
// changes the count of the other characters.
type spelling struct {
	name   []byte
	joined []byte // the name without joints
	runes  int    // characters of the name
	joints int
	isCut  bool // more stands behind the name
}

// spellingOf returns how a name is spelled. Ascii is false if it may have characters beyond ASCII.
func spellingOf(name []byte, ascii, isCut bool) spelling {
	s := spelling{name: name, joined: name, runes: len(name), isCut: isCut}
	if !ascii {
		s.runes = utf8.RuneCount(name)
	}
	s.joints = bytes.Count(name, []byte{'_'}) + bytes.Count(name, []byte{'-'})
	return s
}

// mayHave reports whether a name may be that of a child.
func (p *place) mayHave(s *spelling) bool {
	return s.isCut || p.lengths&(lengthBit(s.runes)|lengthBit(s.runes-s.joints)) != 0
}

// mayBe reports whether a name is as long as that of a child.
func (s *spelling) mayBe(c *child) bool {
	if c.isJoined {
		return s.isCut || s.runes-s.joints == c.runes
	}
	return !s.isCut && s.runes == c.runes
}

// isNamed reports whether parsers may take a name, which is as long, for that of the place.
func (p *place) isNamed(s *spelling) bool {
	switch {
	case s.isCut:
		return len(s.joined) <= foldedGrowth*len(p.name)
	case len(p.joined) == 0:
		return bytes.EqualFold(s.name, p.name)
	}
	return bytes.EqualFold(s.joined, p.joined)
}
