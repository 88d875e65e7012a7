package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// answer is what a reader made of a request.
type answer struct {
	kind answerKind
	text string // a text as it is, a number or anything else as the reader printed it; why a request was refused
}

type answerKind uint8

const (
	answerNone    answerKind = iota // the reader has no value
	answerText                      // a string
	answerNumber                    // a number
	answerOther                     // true, false, an array, an object or a file
	answerRefused                   // the reader has taken the request for an error
)

// parseAnswer parses what a server has answered.
func parseAnswer(status int, body string) (answer, error) {
	if status >= 300 {
		first, _, _ := strings.Cut(body, "\n")
		return answer{answerRefused, fmt.Sprintf("%d %.80s", status, strings.TrimPrefix(first, "refused: "))}, nil
	}
	kind, text, _ := strings.Cut(body, " ")
	switch kind {
	case "none":
		return answer{}, nil
	case "text":
		var decoded string
		err := json.Unmarshal([]byte(text), &decoded)
		return answer{answerText, decoded}, err
	case "number":
		return answer{answerNumber, text}, nil
	case "other":
		return answer{answerOther, text}, nil
	}
	return answer{}, fmt.Errorf("no answer: %.80q", body)
}

// String returns the answer in the table of disagreements.
func (a answer) String() string {
	switch a.kind {
	case answerNone:
		return "nothing"
	case answerText:
		return quoteShort(a.text)
	case answerNumber:
		return "number " + a.text
	case answerOther:
		return a.text
	}
	return "refused: " + a.text
}

// plainNumber is a number as this module writes those of documents.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`)

// isNumber reports whether the answer, a number or the text of one, has the value of a number that is told.
func (a answer) isNumber(text string) bool {
	const longest = 100 // no exponent of the corpus is longer, and a rational number has as many digits as the exponent says
	if len(a.text) > longest || a.kind != answerNumber && a.kind != answerText || !plainNumber.MatchString(text) {
		return false
	}
	got, ok := new(big.Rat).SetString(a.text)
	want, isRat := new(big.Rat).SetString(text)
	return ok && isRat && got.Cmp(want) == 0
}
