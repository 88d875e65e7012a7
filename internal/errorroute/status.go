package errorroute

import (
	"slices"
	"strconv"
	"strings"
)

// span is a number of statuses, from the first one to the last.
type span struct{ first, last int }

// spans are the statuses that handle_errors names.
type spans []span

// include reports whether a status is one of them.
func (s spans) include(status int) bool {
	return slices.ContainsFunc(s, func(s span) bool { return s.first <= status && status <= s.last })
}

// statusPlaceholder is an error's status in the expression of handle_errors.
const statusPlaceholder = "{http.error.status_code}"

// statusesNamed reads the expression that Caddy makes of handle_errors 404 5xx, and reports whether it is one:
//
//	{http.error.status_code} >= 500 && {http.error.status_code} <= 599 || {http.error.status_code} in [404]
func statusesNamed(expression string) (named spans, isList bool) {
	for part := range strings.SplitSeq(expression, " || ") {
		more, ok := parseList(part)
		if !ok {
			more, ok = parseSpan(part)
		}
		if !ok {
			return nil, false
		}
		named = append(named, more...)
	}
	return named, true
}

// parseList reads a part of the expression with single statuses.
func parseList(part string) (named spans, ok bool) {
	list, begins := strings.CutPrefix(part, statusPlaceholder+" in [")
	list, ends := strings.CutSuffix(list, "]")
	if !begins || !ends {
		return nil, false
	}
	for text := range strings.SplitSeq(list, ", ") {
		status, err := strconv.Atoi(text)
		if err != nil {
			return nil, false
		}
		named = append(named, span{status, status})
	}
	return named, true
}

// parseSpan reads a part of the expression with all statuses of a first digit.
func parseSpan(part string) (named spans, ok bool) {
	from, to, _ := strings.Cut(part, " && ")
	from, begins := strings.CutPrefix(from, statusPlaceholder+" >= ")
	to, ends := strings.CutPrefix(to, statusPlaceholder+" <= ")
	first, err := strconv.Atoi(from)
	last, endErr := strconv.Atoi(to)
	if !begins || !ends || err != nil || endErr != nil {
		return nil, false
	}
	return spans{{first, last}}, true
}
