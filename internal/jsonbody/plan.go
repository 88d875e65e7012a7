package jsonbody

import (
	"errors"
	"slices"
	"strconv"
)

// Max is the largest number, and the largest sum: 2^52.
const Max = 1 << 52

// Reasons why a body has no number.
var (
	ErrType    = errors.New("the response's Content-Type is none of JSON, events of JSON or lines of JSON")
	ErrEncoded = errors.New("the response is compressed, so that its numbers cannot be read; write Caddy's encode before this " +
		"directive, both into a route, " +
		"and header_up Accept-Encoding identity into the reverse_proxy of an upstream that compresses")
	ErrInvalid = errors.New("the response is no valid JSON")
	ErrAbsent  = errors.New("the response has no number at a path")
	ErrRange   = errors.New("a number of the response is below 0 or above 2^52, or their sum is above it")
)

// Plan is the sums that are read of each body in one pass. The zero value reads none. It must not be
// changed once a body is read.
type Plan struct {
	root  node
	slots int      // paths that differ, each with its place for a number
	sums  [][]term // as added, with slots
}

// node is a place in documents that paths lead to or through.
type node struct {
	name     string // within the node around it
	index    int    // within an array; -1: the name is no index
	slot     int    // of the path that ends here; -1: none does
	children []node
	indexes  int // indexes of children are below it
}

// Add adds a sum and returns its number, for [Body.Sum].
func (p *Plan) Add(s Sum) int {
	if p.slots == 0 {
		p.root.slot = -1
	}
	terms := slices.Clone(s.terms)
	for i := range terms {
		terms[i].slots = make([]int, len(terms[i].paths))
		for j, path := range terms[i].paths {
			terms[i].slots[j] = p.slotOf(path)
		}
	}
	p.sums = append(p.sums, terms)
	return len(p.sums) - 1
}

// slotOf returns the place for a path's number.
func (p *Plan) slotOf(path path) int {
	n := &p.root
	for _, name := range path {
		child := n.child([]byte(name))
		if child == nil {
			n.children = append(n.children, node{name: name, index: indexOf(name), slot: -1})
			child = &n.children[len(n.children)-1]
			n.indexes = max(n.indexes, child.index+1)
		}
		n = child
	}
	if n.slot < 0 {
		n.slot = p.slots
		p.slots++
	}
	return n.slot
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
	for i := range n.children {
		if n.children[i].index == index {
			return &n.children[i]
		}
	}
	return nil
}
