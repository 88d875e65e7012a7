package rule

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/jsonbody"
)

// tokenCost is the tokens that an answer in the body of the response tells.
type tokenCost struct{}

func parseTokens(from string, fallback int64) (costSource, error) {
	if from != TokensOfModel {
		return nil, fmt.Errorf("cost %s %d: write %s without braces", from, fallback, TokensOfModel)
	}
	return tokenCost{}, nil
}

// planned has the tokens be read of all bodies of the plan.
func (c tokenCost) planned(plan *jsonbody.Plan) costSource {
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

// cost is what has been read. The end of the body may change it. A stream without a number costs a token for each of its
// events, at least the fallback, unless it is that of a failure.
func (tokenCost) cost(q costQuestion) (units int64, told, final bool) {
	body := q.response.Body
	if body == nil {
		return 0, false, false
	}
	var err error
	if q.response.Failure {
		units, err = body.Tokens()
	} else {
		units, err = body.TokenCost(q.input(), q.rule.Cost.Fallback)
	}
	q.warnOfBody(TokensOfModel, err)
	return units, err == nil, false
}
