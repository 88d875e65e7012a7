package main

import (
	"errors"
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"
)

// told is what becomes of a request under a policy of the handler identity_told. The zero value: the policy leaves the
// request out, since it has no value.
type told struct {
	Key    string // whose quota the request takes from
	Reason string // why the value is unreadable
}

// String returns what is told in the table of disagreements.
func (t told) String() string {
	switch {
	case t.Key != "":
		return quoteShort(t.Key)
	case t.Reason != "":
		return "unreadable: " + t.Reason
	}
	return "absent"
}

// tell asks a Caddy with the handler for all inputs: by number and policy. An input that Caddy refuses has nothing.
func tell(caddy *frameworks.Running, inputs []input) ([]map[string]told, error) {
	all := make([]map[string]told, len(inputs))
	for number := range inputs {
		err := ask(caddy, inputs[number].request(ownPath), &all[number])
		if err != nil && !errors.Is(err, errRefused) {
			return nil, fmt.Errorf("%s: %w", inputs[number].name(), err)
		}
	}
	return all, nil
}
