package bodyvalue

import (
	"errors"
	"slices"
	"strconv"
)

// largestNumber is the largest number, and the largest sum: 2^52.
const largestNumber = 1 << 52

// Reasons why a body has no number.
var (
	errType    = errors.New("the response's Content-Type is none of JSON, events of JSON or lines of JSON")
	errEncoded = errors.New("the response is compressed, so that its numbers cannot be read; write Caddy's encode before this " +
		"directive, both into a route, " +
		"and header_up Accept-Encoding identity into the reverse_proxy of an upstream that compresses")
	ErrInvalidJSON = errors.New("the response is no valid JSON")
	ErrNoNumber    = errors.New("the response has no number at a path")
	errRange       = errors.New("a number of the response is below 0 or above 2^52, or their sum is above it")
)

// NumberPlan is the sums that are read of each body in one pass. The zero value reads none. It must not be
// changed once a body is read.
type NumberPlan struct {
	root   node
	slots  int      // paths that differ, each with its place for a number
	sums   [][]term // as added, with slots
	tokens []usage  // the first one with a number counts, see [NumberPlan.AddTokens]
}

// node is a place in documents that paths lead to or through.
type node struct {
	name     string // within the node around it
	index    int    // within an array; -1: the name is no index
	slot     int    // of the path of a sum that ends here; -1: none does
	tokens   int    // of the path of tokens that does; -1: none
	children []node
	indexes  int // indexes of children are below it

	items *items // of the document as an array; nil: its elements are children, as those of any other array
}

// items are what is read of an array in which paths lead into every element.
type items struct {
	every    node   // an element that no index in a path names
	elements []node // the others, with what is read of every one
}

// Add adds a sum and returns its number, for [NumberReader.Sum].
func (p *NumberPlan) Add(s Sum) int {
	p.init()
	terms := slices.Clone(s.terms)
	for i := range terms {
		terms[i].slots = make([]int, len(terms[i].paths))
		for j, path := range terms[i].paths {
			terms[i].slots[j] = p.slotOf(path)
		}
	}
	p.sums = append(p.sums, terms)
	p.renewElements()
	return len(p.sums) - 1
}

// init makes the root one that is no number.
func (p *NumberPlan) init() {
	if p.slots == 0 {
		p.root.slot, p.root.tokens = -1, -1
	}
}

// slotOf returns the place for a path's number.
func (p *NumberPlan) slotOf(path path) int {
	n := p.root.lead(path)
	if n.slot < 0 {
		n.slot = p.slots
		p.slots++
	}
	return n.slot
}

// lead returns the node that a path ends at, and makes it if there is none.
func (n *node) lead(path path) *node {
	for _, name := range path {
		child := n.child([]byte(name))
		if child == nil {
			n.children = append(n.children, node{name: name, index: indexOf(name), slot: -1, tokens: -1})
			child = &n.children[len(n.children)-1]
			n.indexes = max(n.indexes, child.index+1)
		}
		n = child
	}
	return n
}

// indexOf returns the index that a name is in an array, or -1. It has 30 bits, and is no question of an int's size.
func indexOf(name string) int {
	n, err := strconv.ParseUint(name, 10, 30)
	if err != nil || strconv.FormatUint(n, 10) != name {
		return -1
	}
	return int(n)
}

// child returns the node of a member of an object; nil: no path leads there.
func (n *node) child(name []byte) *node {
	for i := range n.children {
		if n.children[i].name == string(name) {
			return &n.children[i]
		}
	}
	return nil
}

// element returns the node of an element of an array; nil: no path leads there.
func (n *node) element(index int) *node {
	elements, other := n.children, (*node)(nil)
	if n.items != nil {
		elements, other = n.items.elements, &n.items.every
	}
	for i := range elements {
		if elements[i].index == index {
			return &elements[i]
		}
	}
	return other
}

// hasElement reports whether a path leads to an element of an array, or to one behind it.
func (n *node) hasElement(index int) bool { return index < n.indexes || n.items != nil }
