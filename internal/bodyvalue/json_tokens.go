package bodyvalue

import "errors"

// Tokens returns how many tokens of a language model the body tells, by the first of these that has a number:
//
//	usage.total_tokens
//	response.usage.total_tokens
//	input_tokens + cache_creation_input_tokens + cache_read_input_tokens + output_tokens,
//	    each in usage or else in message.usage
//	usageMetadata.totalTokenCount
//	prompt_eval_count + eval_count
//	usage.totalTokens
//	input_tokens + output_tokens, each in usage.tokens or else in delta.usage.tokens
//	meta.billed_units.input_tokens + meta.billed_units.image_tokens
//
// Of a sum the numbers count that are there. Of each path the last number counts, of the document, or of all events and
// lines so far; if the document is an array, that of the last element that has one. Errors are those of [NumberReader.Sum]. The
// plan must have [NumberPlan.AddTokens], and the body must have ended.
func (b *NumberReader) Tokens() (int64, error) {
	if err := b.unread(); err != nil {
		return 0, err
	}
	for i := range b.plan.tokens {
		n, err := b.usage(&b.plan.tokens[i])
		if !errors.Is(err, ErrNoNumber) {
			return n, err
		}
	}
	return 0, ErrNoNumber
}

// usage returns the sum of the numbers that are there.
func (b *NumberReader) usage(u *usage) (int64, error) {
	var space [maxPaths]addend
	addends := space[:0]
	for i := range u.terms {
		n, err := b.first(u.terms[i].slots)
		if errors.Is(err, ErrNoNumber) {
			continue
		}
		if err != nil {
			return 0, err
		}
		addends = append(addends, addend{n, factorUnit, false})
	}
	if len(addends) == 0 {
		return 0, ErrNoNumber
	}
	return sumOf(addends)
}

// HeaderTokens returns what [HeaderTokens] does of the body's header, as it was when the reading began: handlers may
// change it later. The plan must have [NumberPlan.AddTokens].
func (b *NumberReader) HeaderTokens() (int64, error) { return b.headerTokens, b.headerErr }

// TokenCost returns the tokens that the body tells, or of a stream that tells none an estimate: one token for each
// event or line of JSON and those of the input, at least so many. The input is [Weight.Input] where the weight is
// estimated too, or else 0. It is meant for responses that succeed: one event that says what failed is no answer, and
// for it [NumberReader.Tokens] is right. Errors are those of Tokens; a stream without any event of JSON is [ErrNoNumber].
func (b *NumberReader) TokenCost(input, least int64) (int64, error) {
	n, err := b.Tokens()
	if !errors.Is(err, ErrNoNumber) || b.form == formOne || b.events == 0 {
		return n, err
	}
	return max(least, min(largestNumber, b.events+input)), nil
}
