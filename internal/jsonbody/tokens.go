package jsonbody

import (
	"errors"
	"slices"
)

// usage is how an API reports the tokens of a call: the sum of numbers, of which those count that are there.
type usage struct{ terms []usageTerm }

// usageTerm is a number with the paths that lead to it: the first one that has a number counts.
type usageTerm struct {
	paths []path
	slots []int // of the paths, in a plan; no sum has one of them, since a sum reads no array as tokens do
}

// usages are those of the known APIs. The first one that has a number counts.
var usages = []usage{
	{[]usageTerm{usageAt(path{"usage", "total_tokens"})}},             // OpenAI, and what is compatible with it
	{[]usageTerm{usageAt(path{"response", "usage", "total_tokens"})}}, // events of OpenAI's responses
	{[]usageTerm{ // Anthropic, whose input_tokens leave out the cached ones
		anthropicUsage("input_tokens"),
		anthropicUsage("cache_creation_input_tokens"),
		anthropicUsage("cache_read_input_tokens"),
		anthropicUsage("output_tokens"),
	}},
	{[]usageTerm{usageAt(path{"usageMetadata", "totalTokenCount"})}}, // Gemini
	{[]usageTerm{ // Ollama, which leaves out what it has cached
		usageAt(path{"prompt_eval_count"}),
		usageAt(path{"eval_count"}),
	}},
}

func usageAt(paths ...path) usageTerm { return usageTerm{paths: paths} }

func anthropicUsage(name string) usageTerm {
	return usageAt(path{"usage", name}, path{"message", "usage", name})
}

// AddTokens adds what [Body.Tokens] needs. Once added it is read of all bodies.
func (p *Plan) AddTokens() {
	if len(p.tokens) > 0 {
		return
	}
	p.init()
	for _, known := range usages {
		planned := usage{slices.Clone(known.terms)}
		for i := range planned.terms {
			term := &planned.terms[i]
			for range term.paths {
				term.slots = append(term.slots, p.slots)
				p.slots++
			}
		}
		p.tokens = append(p.tokens, planned)
	}
	p.leadToTokens(&p.root)
	p.renewElements()
}

// renewElements has the tokens be read of each element of an array that is the document: of the last one that has a
// number it counts. Gemini sends such arrays. A path with an index leads to its element as before.
func (p *Plan) renewElements() {
	if len(p.tokens) == 0 {
		return
	}
	every := node{index: -1, slot: -1, tokens: -1}
	p.leadToTokens(&every)
	p.root.every, p.root.elements = &every, nil
	for i := range p.root.children {
		if p.root.children[i].index >= 0 {
			element := p.root.children[i].clone()
			p.leadToTokens(&element)
			p.root.elements = append(p.root.elements, element)
		}
	}
}

// leadToTokens makes the nodes of the tokens' paths within a node.
func (p *Plan) leadToTokens(n *node) {
	for i := range p.tokens {
		for j := range p.tokens[i].terms {
			term := &p.tokens[i].terms[j]
			for k, path := range term.paths {
				n.lead(path).tokens = term.slots[k]
			}
		}
	}
}

// clone returns a copy of a node with all that is in it.
func (n *node) clone() node {
	c := *n
	c.children = slices.Clone(n.children)
	for i := range c.children {
		c.children[i] = c.children[i].clone()
	}
	return c
}

// Tokens returns how many tokens of a language model the body tells, by the first of these that has a number:
//
//	usage.total_tokens
//	response.usage.total_tokens
//	input_tokens + cache_creation_input_tokens + cache_read_input_tokens + output_tokens,
//	    each in usage or else in message.usage
//	usageMetadata.totalTokenCount
//	prompt_eval_count + eval_count
//
// Of a sum the numbers count that are there. Of each path the last number counts, of the document, or of all events and
// lines so far; if the document is an array, that of the last element that has one. Errors are those of [Body.Sum]. The
// plan must have [Plan.AddTokens], and the body must have ended.
func (b *Body) Tokens() (int64, error) {
	if err := b.unread(); err != nil {
		return 0, err
	}
	for i := range b.plan.tokens {
		n, err := b.usage(&b.plan.tokens[i])
		if !errors.Is(err, ErrAbsent) {
			return n, err
		}
	}
	return 0, ErrAbsent
}

// usage returns the sum of the numbers that are there.
func (b *Body) usage(u *usage) (int64, error) {
	var space [maxPaths]addend
	addends := space[:0]
	for i := range u.terms {
		n, err := b.first(u.terms[i].slots)
		if errors.Is(err, ErrAbsent) {
			continue
		}
		if err != nil {
			return 0, err
		}
		addends = append(addends, addend{n, factorUnit, false})
	}
	if len(addends) == 0 {
		return 0, ErrAbsent
	}
	return sumOf(addends)
}

// TokenCost returns the tokens that the body tells, or of a stream that tells none an estimate: one token for each
// event or line of JSON and those of the input, at least so many. The input is [Request.Input] where the weight is
// estimated too, or else 0. It is meant for responses that succeed: one event that says what failed is no answer, and
// for it [Body.Tokens] is right. Errors are those of Tokens; a stream without any event of JSON is [ErrAbsent].
func (b *Body) TokenCost(input, least int64) (int64, error) {
	n, err := b.Tokens()
	if !errors.Is(err, ErrAbsent) || b.form == formOne || b.events == 0 {
		return n, err
	}
	return max(least, min(Max, b.events+input)), nil
}
