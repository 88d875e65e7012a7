package main

import (
	"cmp"
	"maps"
	"slices"
)

// kind says how a reader and the module disagree.
type kind uint8

const (
	absent  kind = iota // the reader has a value, and the policy leaves the request out
	twoKeys             // the reader has one value of two inputs, which have two keys
	joined              // the reader has two values of two inputs, which have one key
)

// String returns the name of the kind in the results.
func (k kind) String() string {
	return [...]string{"read, counted as absent", "one value, two keys", "two values, one key"}[k]
}

// disagreement is one of a reader and a policy. Both inputs of one about absent values are the same.
type disagreement struct {
	kind   kind
	server *server
	reader string
	group  group
	policy string
	inputs [2]*input
	values [2]string // that the reader has
	told   [2]told
	reason string // why it is harmless, or ""
}

// row is what the table says of a reader.
type row struct {
	server *server
	reader string
	group  group
	read   int    // inputs of which the reader has a value
	keyed  int    // those with a key
	unread int    // those that are unreadable
	found  [3]int // disagreements by kind, of all policies of the group
}

// judge compares what the readers of a server have with what is told.
func judge(s *server, all readings, inputs []input, tells []map[string]told) (rows []row, found []disagreement) {
	for g := range groups {
		for _, reader := range slices.Sorted(maps.Keys(all)) {
			if !slices.Contains(g.readers(), readerWord(reader)) {
				continue
			}
			values := byValue(all[reader], g, inputs)
			if len(values) == 0 {
				continue
			}
			w := row{server: s, reader: reader, group: g}
			for number, policy := range g.policies() {
				c := comparison{server: s, reader: reader, group: g, policy: policy, inputs: inputs, tells: tells}
				c.compare(values)
				if number == 0 {
					w.read, w.keyed, w.unread = c.read, c.keyed, c.unread
				}
				for _, d := range c.found {
					w.found[d.kind]++
				}
				found = append(found, c.found...)
			}
			rows = append(rows, w)
		}
	}
	return rows, found
}

// byValue returns the numbers of the inputs of a group by what a reader has of them.
func byValue(read map[int]string, g group, inputs []input) map[string][]int {
	values := map[string][]int{}
	for _, number := range slices.Sorted(maps.Keys(read)) {
		if inputs[number].group == g {
			values[read[number]] = append(values[read[number]], number)
		}
	}
	return values
}

// comparison compares a reader with a policy.
type comparison struct {
	server *server
	reader string
	group  group
	policy string
	inputs []input
	tells  []map[string]told

	read, keyed, unread int
	found               []disagreement
}

// reading is an input and what a reader has of it.
type reading struct {
	number int
	value  string
}

// compare finds the disagreements: for each value those of the inputs that have another key than the first one, and for each
// key those of the values other than the first one.
func (c *comparison) compare(values map[string][]int) {
	wanted := matched(c.policy)
	byKey := map[string]reading{}
	joins := map[[2]string]bool{}
	for _, value := range slices.Sorted(maps.Keys(values)) {
		if wanted != "" && value != wanted {
			continue
		}
		keys := map[string]bool{}
		var first reading
		for _, number := range values[value] {
			here := reading{number, value}
			c.read++
			switch t := c.tells[number][c.policy]; {
			case t.Reason != "":
				c.unread++
			case t.Key == "":
				c.add(absent, here, here)
			default:
				c.keyed++
				if len(keys) > 0 && !keys[t.Key] {
					c.add(twoKeys, first, here)
				}
				if len(keys) == 0 {
					first = here
				}
				keys[t.Key] = true
				other, met := byKey[t.Key]
				if !met {
					byKey[t.Key] = here
				} else if pair := [2]string{other.value, value}; other.value != value && !joins[pair] {
					joins[pair] = true
					c.add(joined, other, here)
				}
			}
		}
	}
}

func (c *comparison) add(k kind, a, b reading) {
	d := disagreement{
		kind: k, server: c.server, reader: c.reader, group: c.group, policy: c.policy,
		inputs: [2]*input{&c.inputs[a.number], &c.inputs[b.number]}, values: [2]string{a.value, b.value},
		told: [2]told{c.tells[a.number][c.policy], c.tells[b.number][c.policy]},
	}
	d.reason = reasonFor(&d)
	c.found = append(c.found, d)
}

// compare orders disagreements, so that the results do not depend on the run.
func (d disagreement) compare(other disagreement) int {
	return cmp.Or(cmp.Compare(d.kind, other.kind), cmp.Compare(d.group, other.group), cmp.Compare(d.server.String(), other.server.String()),
		cmp.Compare(d.reader, other.reader), cmp.Compare(d.policy, other.policy))
}

// String returns what is wrong.
func (d disagreement) String() string {
	text := d.kind.String() + ": " + d.server.String() + ", " + d.reader + ", " + d.policy + ": " + d.inputs[0].name() + " is read as " +
		quoteShort(d.values[0]) + " and told as " + d.told[0].String()
	if d.kind == absent {
		return text
	}
	return text + "; " + d.inputs[1].name() + " is read as " + quoteShort(d.values[1]) + " and told as " + d.told[1].String()
}
