package accesslog

import "time"

// clockLength is the length of 02/Jan/2006:15:04:05 -0700.
const clockLength = 26

// clock reads the times of the Common Log Format. It keeps the last one, because lines of the same second
// follow each other.
type clock struct {
	text   [clockLength]byte
	micros int64
}

// read reads the text between the brackets. It parses by hand because time.Parse takes ten times as long.
func (c *clock) read(text string) (micros int64, ok bool) {
	if len(text) != clockLength {
		return 0, false
	}
	if string(c.text[:]) == text {
		return c.micros, true
	}
	if text[2] != '/' || text[6] != '/' || text[11] != ':' || text[14] != ':' || text[17] != ':' || text[20] != ' ' {
		return 0, false
	}
	month := monthOf(text[3:6])
	day, hour, minute, second := number(text[0:2]), number(text[12:14]), number(text[15:17]), number(text[18:20])
	year, zone := number(text[7:11]), number(text[22:26])
	if month == 0 || min(day, hour, minute, second, year, zone) < 0 {
		return 0, false
	}
	if day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60 || zone%100 > 59 {
		return 0, false
	}
	date := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	if date.Month() != month && second < 60 {
		return 0, false // such as the 31st of June
	}
	offset := int64(zone/100*60+zone%100) * 60
	switch text[21] {
	case '+':
		offset = -offset
	case '-':
	default:
		return 0, false
	}
	copy(c.text[:], text)
	c.micros = (date.Unix() + offset) * 1e6
	return c.micros, true
}

func monthOf(name string) time.Month {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for m := range 12 {
		if names[3*m:3*m+3] == name {
			return time.Month(m + 1)
		}
	}
	return 0
}

// number reads digits. Anything else is -1.
func number(digits string) int {
	n := 0
	for i := range len(digits) {
		d := digits[i] - '0'
		if d > 9 {
			return -1
		}
		n = 10*n + int(d)
	}
	return n
}
