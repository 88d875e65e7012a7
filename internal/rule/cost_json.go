package rule

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// wordJSON begins a source that is a sum of numbers in the response's body.
const wordJSON = "json"

// jsonCost is a sum of numbers in a JSON body.
type jsonCost struct {
	from   string // the source as it is configured
	sum    bodyvalue.Sum
	prices []Placeholder // of the factors in the sum
	number int           // of the sum in the set's plan
}

func parseJSON(from string, _ int64) (costSource, error) {
	c := &jsonCost{from: from}
	var err error
	if c.sum, err = bodyvalue.ParseSum(strings.TrimPrefix(from, wordJSON+" ")); err != nil {
		return nil, fmt.Errorf("cost %s: %w", from, err)
	}
	for _, factor := range c.sum.Placeholders() {
		price, err := ParsePlaceholder(wordCost, factor)
		if err != nil {
			return nil, err
		}
		c.prices = append(c.prices, price)
	}
	return c, nil
}

// planned returns a copy, since a rule may be in several sets.
func (c *jsonCost) planned(plan *bodyvalue.NumberPlan) costSource {
	planned := *c
	planned.number = plan.Add(c.sum)
	return &planned
}

// cost is the sum by the numbers that have been read. The end of the body may change it.
func (c *jsonCost) cost(q costQuestion) (units int64, told, final bool) {
	body := q.response.Body
	if body == nil {
		return 0, false, false
	}
	units, err := body.Sum(c.number, func(i int) (bodyvalue.Factor, error) { return c.factor(q, i) })
	q.warnOfBody(c.from, err)
	return units, err == nil, false
}

// warnOfBody warns of a source in a body that has told no cost. A number that is missing in a body that broke off, or in one
// of a failure, is no fault of the configuration.
func (q *costQuestion) warnOfBody(source string, err error) {
	missing := errors.Is(err, bodyvalue.ErrNoNumber) || errors.Is(err, bodyvalue.ErrInvalidJSON)
	if err != nil && !q.response.Failure && (q.response.Complete || !missing) {
		q.set.warn(q.rule, wordCost, fmt.Errorf("%s: %w", source, err))
	}
}

// factor returns a factor of the sum that a placeholder has.
func (c *jsonCost) factor(q costQuestion, i int) (bodyvalue.Factor, error) {
	price := &c.prices[i]
	text, err := q.set.placeholderValue(q.rule, wordCost, price, &request{Request: q.response.Request, repl: q.repl})
	if err != nil {
		return 0, err
	}
	factor, ok := bodyvalue.ParseFactor(text)
	if !ok {
		return 0, fmt.Errorf("{%s} is no decimal of at most 6 places from 0 to 1000000", price.Name)
	}
	return factor, nil
}

// NewBody returns the reader of a response's body with a header, for the rules whose costs are in bodies.
func (s *Set) NewBody(header http.Header) *bodyvalue.NumberReader { return s.bodies.NewReader(header) }
