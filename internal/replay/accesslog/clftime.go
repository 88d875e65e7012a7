package accesslog

import "time"

// commonLog is the layout of a time in Common Log Format.
const commonLog = "02/Jan/2006:15:04:05 -0700"

// clock reads the times of the Common Log Format. It keeps the last one, because lines of the same second
// follow each other.
type clock struct {
	text   string
	micros int64
}

// read reads the text between the brackets.
func (c *clock) read(text string) (micros int64, ok bool) {
	if c.text != text || text == "" {
		t, err := time.Parse(commonLog, text)
		if err != nil {
			return 0, false
		}
		c.text, c.micros = text, t.UnixMicro()
	}
	return c.micros, true
}
