package rule

import (
	"errors"
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// tokenCost is the tokens that an answer tells, in the body of the response or else in its header.
type tokenCost struct{}

func parseTokens(from string, fallback int64) (costSource, error) {
	if from != TokensOfModel {
		return nil, fmt.Errorf("cost %s %d: write %s without braces", from, fallback, TokensOfModel)
	}
	return tokenCost{}, nil
}

// planned has the tokens be read of all bodies of the plan.
func (c tokenCost) planned(plan *bodyvalue.NumberPlan) costSource {
	plan.AddTokens()
	return c
}

// input is how many tokens the request has, where the weight is an estimate of them; else 0.
func (q *costQuestion) input() int64 {
	if q.rule.Numbers.WeightFrom.field.kind != tokensField {
		return 0
	}
	return q.response.Input
}

// cost is what the body tells. The end of the body may change it. If the body tells nothing it is what the header tells,
// whether or not the body ends: the two are never added. A stream without a number costs a token for each of its events, at
// least the fallback, unless it is that of a failure.
func (tokenCost) cost(q costQuestion) (units int64, told, final bool) {
	body := q.response.Body
	if body == nil { // as in replay
		return q.headerCost(bodyvalue.HeaderTokens(q.response.Header))
	}
	units, err := body.Tokens()
	if err == nil {
		return units, true, false
	}
	if units, err := body.HeaderTokens(); !errors.Is(err, bodyvalue.ErrNoNumber) {
		return q.headerCost(units, err)
	}
	if !q.response.Failure {
		units, err = body.TokenCost(q.input(), q.rule.Cost.Fallback)
	}
	q.warnOfBody(TokensOfModel, err)
	return units, err == nil, false
}

// headerCost is the cost by the tokens of the header, or by the error of reading them.
func (q *costQuestion) headerCost(tokens int64, err error) (units int64, told, final bool) {
	if err != nil && !errors.Is(err, bodyvalue.ErrNoNumber) {
		q.warnOfBody(TokensOfModel, err)
	}
	return tokens, err == nil, err == nil && q.response.Begun
}
