package accesslog

import "strconv"

// number reads three digits of a status, or -1.
func number(digits string) int {
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// length reads a count of bytes. A dash and anything but a number is 0.
func length(text string) int64 {
	n, _ := strconv.ParseUint(text, 10, 63) // too large a number is the largest
	return int64(n)
}

// noneIfDash returns a field, in which a dash is empty.
func noneIfDash(field string) string {
	if field == "-" {
		return ""
	}
	return field
}
