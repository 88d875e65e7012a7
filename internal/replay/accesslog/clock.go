package accesslog

// moment is what the time in a line is.
type moment uint8

const (
	unknownMoment moment = iota // of the start or the end of the request, which the format does not tell
	startMoment
	endMoment
)

// clock says what the times of a file are.
type clock struct {
	moment moment
	coarse bool
}

// String returns the words for a sentence.
func (c clock) String() string {
	text := map[moment]string{
		unknownMoment: "the start or the end of requests, which the format does not tell",
		startMoment:   "the start of requests", endMoment: "the end of requests",
	}[c.moment]
	if c.coarse {
		text += ", in whole seconds"
	}
	return text
}
