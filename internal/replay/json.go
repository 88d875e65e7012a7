package replay

import (
	"encoding/json"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// seconds is a duration in the admin API's form: a number of seconds, with as many decimals as it has.
type seconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// MarshalJSON writes the result for programs, in a form that is safe on a terminal: its text comes from
// strangers, so every character that does not print is escaped, which keeps the value.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	text, err := json.Marshal(struct {
		plain
		Step seconds `json:"step"`
	}{plain(r), seconds(r.Step)})
	if err != nil {
		return nil, err
	}
	return []byte(display.EscapeJSON(string(text))), nil
}

// MarshalJSON writes the duration as seconds.
func (r clientResult) MarshalJSON() ([]byte, error) {
	type plain clientResult
	return json.Marshal(struct {
		plain
		LongestLasted seconds `json:"longest_lasted"`
	}{plain(r), seconds(r.LongestLasted)})
}

// MarshalJSON writes the duration as seconds.
func (l readReport) MarshalJSON() ([]byte, error) {
	type plain readReport
	return json.Marshal(struct {
		plain
		LatestBy seconds `json:"latest_by,omitempty"`
	}{plain(l), seconds(l.LatestBy)})
}

// MarshalJSON writes the duration as seconds.
func (s suggestions) MarshalJSON() ([]byte, error) {
	type plain suggestions
	return json.Marshal(struct {
		plain
		Window seconds `json:"window"`
	}{plain(s), seconds(s.Window)})
}
