package jsonbody

import (
	"strings"
	"unicode/utf8"
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
	isASCII  bool
	parent   int
	end      bool   // of a path, so that a number or a word is kept
	strings  bool   // of one that is not for tokens alone, so that a string is kept
	children []int  // places
	lengths  uint64 // of the children's names: a bit each, the last one for all longer names
	wide     bool   // a child's name has a character beyond ASCII
}

// placedPath is a path as places.
type placedPath struct {
	places []int // of its names, from the outermost one
	flat   int   // the place of the name at the root that is the whole path; 0: the path has one name
}

// nowhere is the place of what no path leads to.
const nowhere = -1

// maxFolded is how many times as long a name may be in another case: U+212A is another k.
const maxFolded = 3

// AddPath adds a path and returns its number, for [Request.Value].
func (p *RequestPlan) AddPath(path Path) int {
	number := p.addPath(path)
	at := 0
	if places := p.paths[number].places; len(places) > 0 {
		at = places[len(places)-1]
	}
	p.places[at].strings = true
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
	p.longest = max(p.longest, maxFolded*len(name))
	return id
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
	return p.wide || !ascii || p.lengths&lengthBit(len(name)) != 0
}
