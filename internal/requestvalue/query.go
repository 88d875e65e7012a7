package requestvalue

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// maxParameters is how many parameters a query has at most: Go's net/url (1.26.8) reads none at all of more.
const maxParameters = 10_000

// Query returns the value of the parameter with a name in a query, decoded and folded.
//
// The value is unreadable if servers read different ones: a second parameter of the name, one whose name some servers take
// for it, a semicolon at either side of it, at which some separate parameters, a "#", at which some end the query, and a bad
// escape in it. A parameter whose
// name some take for the one that is asked for, which itself is not there, has the reason [bodyvalue.ReasonSimilarName].
func Query(query string, name Name) bodyvalue.Value {
	s := search{name: name}
	times, semicolon := 0, false
	semicolons := strings.IndexByte(query, ';') >= 0
	before := byte('&')
	for pairs := 0; query != ""; pairs++ {
		if pairs == maxParameters {
			return bodyvalue.Unreadable(bodyvalue.ReasonParameters)
		}
		pair, separator, rest := cutPair(query, semicolons)
		query = rest
		key, text, _ := strings.Cut(pair, "=")
		compared := name.compareParameter(key)
		if s.add(compared, text); compared == matchExact {
			times++
			semicolon = semicolon || before == ';' || separator == ';'
		}
		before = separator
	}
	if v, ok := s.conflict(times > 1); !ok {
		return v
	}
	if semicolon {
		return bodyvalue.Unreadable(bodyvalue.ReasonSemicolon)
	}
	if v, ok := readPlain(s.text); ok {
		return v
	}
	return queryEncoding.read(s.text)
}

// cutPair splits a query behind its first parameter. The separator is 0 at the end.
func cutPair(query string, semicolons bool) (pair string, separator byte, rest string) {
	end := strings.IndexByte(query, '&')
	if end < 0 {
		end = len(query)
	}
	if semicolons {
		if i := strings.IndexByte(query[:end], ';'); i >= 0 {
			end = i
		}
	}
	if end == len(query) {
		return query, 0, ""
	}
	return query[:end], query[end], query[end+1:]
}
