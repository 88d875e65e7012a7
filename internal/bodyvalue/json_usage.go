package bodyvalue

import "slices"

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
	{[]usageTerm{usageAt(path{"usage", "totalTokens"})}}, // Bedrock's Converse, which counts the cached ones
	{[]usageTerm{cohereUsage("input_tokens"), cohereUsage("output_tokens")}},
	{[]usageTerm{ // Cohere's embeddings, and answers of its first version without all tokens
		usageAt(path{"meta", "billed_units", "input_tokens"}),
		usageAt(path{"meta", "billed_units", "output_tokens"}),
		usageAt(path{"meta", "billed_units", "image_tokens"}),
	}},
}

func usageAt(paths ...path) usageTerm { return usageTerm{paths: paths} }

func anthropicUsage(name string) usageTerm {
	return usageAt(path{"usage", name}, path{"message", "usage", name})
}

// cohereUsage is a number of an answer, or of the last event of a stream, of the second version or of the first. All tokens
// count, not only billed ones.
func cohereUsage(name string) usageTerm {
	return usageAt(path{"usage", "tokens", name}, path{"delta", "usage", "tokens", name},
		path{"meta", "tokens", name}, path{"response", "meta", "tokens", name})
}

// AddTokens adds what [NumberReader.Tokens] needs. Once added it is read of all bodies.
func (p *NumberPlan) AddTokens() {
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
func (p *NumberPlan) renewElements() {
	if len(p.tokens) == 0 {
		return
	}
	items := &items{every: node{index: -1, slot: -1, tokens: -1}}
	p.leadToTokens(&items.every)
	for i := range p.root.children {
		if p.root.children[i].index >= 0 {
			element := p.root.children[i].clone()
			p.leadToTokens(&element)
			items.elements = append(items.elements, element)
		}
	}
	p.root.items = items
}

// leadToTokens makes the nodes of the tokens' paths within a node.
func (p *NumberPlan) leadToTokens(n *node) {
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
