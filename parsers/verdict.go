package main

// verdict says how what a reader has read compares with what is told.
type verdict uint8

const (
	verdictRefused  verdict = iota // the reader refuses the request
	verdictNone                    // the reader has no value
	verdictEqual                   // the reader has the value that is told
	verdictStricter                // the reader has a value, and none is told
	verdictDiffers                 // the reader has another value than the one that is told, or has one where it should be absent
)

// judge compares an answer with what is told. A text of which keys alone are made is compared as a key.
func judge(t told, a answer) verdict {
	switch {
	case a.kind == answerRefused:
		return verdictRefused
	case a.kind == answerNone:
		return verdictNone
	case t.kind == toldUnreadable:
		return verdictStricter
	case t.kind == toldAbsent:
		return verdictDiffers
	case a.text == t.text,
		a.isNumber(t.text),
		!t.exact && a.kind == answerText && fold(a.text) == fold(t.text):
		return verdictEqual
	}
	return verdictDiffers
}

// disagreement is a sample of which a reader has another value.
type disagreement struct {
	sample *sample
	told   told
	server string
	way    string
	answer answer
	reason string // why the disagreement is harmless, or ""
}
