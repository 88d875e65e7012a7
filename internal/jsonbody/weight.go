package jsonbody

import (
	"math/bits"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
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
		{"options", "num_predict"}, // Ollama
	}
	answerNames = [][]string{{"n"}, {"best_of"}, {"generationConfig", "candidateCount"}}
)

// AddTokens adds what [Request.Tokens] needs.
func (p *RequestPlan) AddTokens() {
	if len(p.tokens.outputs) > 0 {
		return
	}
	for _, names := range outputNames {
		p.tokens.outputs = append(p.tokens.outputs, p.AddPath(Path{names}))
	}
	for _, names := range answerNames {
		p.tokens.answers = append(p.tokens.answers, p.AddPath(Path{names}))
	}
}

// Tokens returns how many tokens a call to a language model may cost, from 0 to [Max]:
//
//	answers × output + input
//
// The output is the largest bound of an answer's tokens that the body has, or n if it has none; answers is how many the
// body asks for, at least 1. If the body is unreadable, or one of these numbers, it is n, and the reason says why. The
// plan must have [RequestPlan.AddTokens], and the body must have ended.
func (r *Request) Tokens(n int64) (int64, bodyvalue.Reason) {
	if r.reason != bodyvalue.ReasonNone {
		return n, r.reason
	}
	output, reason := r.largest(r.plan.tokens.outputs)
	if reason != bodyvalue.ReasonNone {
		return n, reason
	}
	if output == 0 {
		output = n
	}
	answers, reason := r.largest(r.plan.tokens.answers)
	if reason != bodyvalue.ReasonNone {
		return n, reason
	}
	hi, lo := bits.Mul64(uint64(output), uint64(max(1, answers)))
	if hi > 0 || lo > Max {
		return Max, bodyvalue.ReasonNone
	}
	return min(Max, int64(lo)+r.Input()), bodyvalue.ReasonNone
}

// largest returns the largest positive whole number of paths; 0: there is none.
func (r *Request) largest(paths []int) (n int64, reason bodyvalue.Reason) {
	for _, number := range paths {
		content, text, reason := r.read(number)
		switch {
		case reason != bodyvalue.ReasonNone:
			return 0, reason
		case content == contentNumber:
			n = max(n, positiveWhole(text))
		}
	}
	return n, bodyvalue.ReasonNone
}

// Input returns an estimate of the tokens that a language model reads of the body, from 0 to [Max]: a quarter of the
// bytes of all strings that are values, but for long ones of base64; and one for each number in an array of numbers.
// Of an unreadable body it is 0. The body must have ended.
func (r *Request) Input() int64 {
	if r.reason != bodyvalue.ReasonNone {
		return 0
	}
	return r.size.tokens()
}
