package replay

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// seconds is a duration as the admin API has them: a number of seconds, with as many decimals as it has.
type seconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// MarshalJSON writes the result for programs, and so that a terminal may show it: of the text in it, which
// is a stranger's, every character that does not print is written as an escape, which means the same.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	text, err := json.Marshal(struct {
		plain
		Step seconds `json:"step"`
	}{plain(r), seconds(r.Step)})
	if err != nil {
		return nil, err
	}
	return printableJSON(text), nil
}

// MarshalJSON writes the durations as seconds.
func (r PolicyResult) MarshalJSON() ([]byte, error) {
	type plain PolicyResult
	return json.Marshal(struct {
		plain
		Window   seconds `json:"window"`
		MaxDelay seconds `json:"max_delay,omitempty"`
	}{plain(r), seconds(r.Window), seconds(r.MaxDelay)})
}

// MarshalJSON writes the duration as seconds.
func (r ClientResult) MarshalJSON() ([]byte, error) {
	type plain ClientResult
	return json.Marshal(struct {
		plain
		LongestLasted seconds `json:"longest_lasted"`
	}{plain(r), seconds(r.LongestLasted)})
}

// MarshalJSON writes the duration as seconds.
func (r LogReport) MarshalJSON() ([]byte, error) {
	type plain LogReport
	return json.Marshal(struct {
		plain
		LatestBy seconds `json:"latest_by,omitempty"`
	}{plain(r), seconds(r.LatestBy)})
}

// MarshalJSON writes the duration as seconds.
func (s Suggestions) MarshalJSON() ([]byte, error) {
	type plain Suggestions
	return json.Marshal(struct {
		plain
		Window seconds `json:"window"`
	}{plain(s), seconds(s.Window)})
}

// printableJSON escapes what does not print. In compact JSON that stands within strings only.
func printableJSON(text []byte) []byte {
	printable := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case unicode.IsPrint(r):
			printable = append(printable, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			printable = fmt.Appendf(printable, `\u%04x\u%04x`, high, low)
		default:
			printable = fmt.Appendf(printable, `\u%04x`, r)
		}
		text = text[size:]
	}
	return printable
}
