package bodyvalue

import (
	"bytes"
	"encoding/json"
)

// key keeps the name of a member while it passes, as it is written.
type key struct {
	raw     []byte
	escaped bool // the next character follows a backslash
}

// maxRaw is the most bytes that a name of maxName takes with escapes.
const maxRaw = maxName * len(`\u0000`)

// begin prepares for the next name.
func (k *key) begin() { k.raw, k.escaped = k.raw[:0], false }

// next takes a character and reports whether the name ends with it.
func (k *key) next(c byte) bool {
	if c == '"' && !k.escaped {
		return true
	}
	k.escaped = c == '\\' && !k.escaped
	if len(k.raw) <= maxRaw {
		k.raw = append(k.raw, c)
	}
	return false
}

// find returns the node of the name in an object; nil: no path leads there.
func (k *key) find(object *node) *node {
	if len(k.raw) > maxRaw || bytes.IndexByte(k.raw, '\\') < 0 {
		return object.child(k.raw) // of a longer name there is none
	}
	var name string
	if json.Unmarshal(append(append([]byte{'"'}, k.raw...), '"'), &name) != nil {
		return nil
	}
	return object.child([]byte(name))
}
