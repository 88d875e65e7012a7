package bodyvalue

import (
	"math/bits"
)

// tokenPaths are the paths that the weight of a call to a language model is read from. The zero value has none.
type tokenPaths struct {
	outputs, answers []int // by the number of the path
}

// The members of the known APIs that bound the tokens of an answer, and the number of answers.
var (
	outputNames = [][]string{
		{"max_completion_tokens"}, {"max_tokens"}, {"max_output_tokens"}, // OpenAI, Anthropic, OpenAI's responses
		{"generationConfig", "maxOutputTokens"}, {"generation_config", "max_output_tokens"}, // Gemini, which takes both
		{"options", "num_predict"},       // Ollama
		{"inferenceConfig", "maxTokens"}, // Bedrock's Converse
	}
	answerNames = [][]string{{"n"}, {"best_of"}, {"generationConfig", "candidateCount"}}
)

// AddTokens adds what [Weight.Tokens] needs.
func (p *JSONPlan) AddTokens() {
	if len(p.tokens.outputs) > 0 {
		return
	}
	for _, names := range outputNames {
		p.tokens.outputs = append(p.tokens.outputs, p.addPath(JSONPath{names}))
	}
	for _, names := range answerNames {
		p.tokens.answers = append(p.tokens.answers, p.addPath(JSONPath{names}))
	}
}

// Weight is what the body of a call to a language model says of its cost. The zero value is that of a call without a
// body. It does not hold the body.
type Weight struct {
	output  int64 // the largest bound of an answer's tokens; 0: there is none
	answers int64 // how many are asked for; 0: the body does not say
	input   int64 // see [Weight.Input]
	reason  UnreadableReason
}

// Weight returns what the body says of its cost. The plan must have [JSONPlan.AddTokens], and the body must have
// ended.
func (r *JSONReader) Weight() (w Weight) {
	if r.reason != ReasonNone {
		return Weight{reason: r.reason}
	}
	w.input = r.size.tokens()
	if w.output, w.reason = r.largest(r.plan.tokens.outputs); w.reason == ReasonNone {
		w.answers, w.reason = r.largest(r.plan.tokens.answers)
	}
	return w
}

// largest returns the largest positive whole number of paths; 0: there is none.
func (r *JSONReader) largest(paths []int) (n int64, reason UnreadableReason) {
	for _, number := range paths {
		content, text, reason := r.read(number)
		switch {
		case reason != ReasonNone:
			return 0, reason
		case content == contentNumber:
			n = max(n, positiveWhole(text))
		}
	}
	return n, ReasonNone
}

// Tokens returns how many tokens the call may cost, from 0 to [largestNumber]:
//
//	answers × output + input
//
// The output is the largest bound of an answer's tokens that the body has, or n if it has none; answers is how many the
// body asks for, at least 1. If the body is unreadable, or one of these numbers, it is n, and the reason says why.
func (w Weight) Tokens(n int64) (int64, UnreadableReason) {
	if w.reason != ReasonNone {
		return n, w.reason
	}
	output := w.output
	if output == 0 {
		output = n
	}
	hi, lo := bits.Mul64(uint64(output), uint64(max(1, w.answers)))
	if hi > 0 || lo > largestNumber {
		return largestNumber, ReasonNone
	}
	return min(largestNumber, int64(lo)+w.input), ReasonNone
}

// Input returns an estimate of the tokens that a language model reads of the body, from 0 to [largestNumber]: a quarter of the
// bytes of all strings that are values, but for long ones of base64; and one for each number in an array of numbers.
// Of an unreadable body it is 0.
func (w Weight) Input() int64 { return w.input }
