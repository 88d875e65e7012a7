package accesslog

import (
	"strconv"
	"strings"
	"time"
)

// haproxyHTTP is the log of HAProxy's option httplog, and of httpslog, which says more behind the request. The time is the
// start, without a zone; of the timers the last is the duration:
//
//	192.0.2.1:45913 [27/Nov/2026:19:20:21.300] fe be/s1 0/0/0/0/0 200 84 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"
var haproxyHTTP = templateFormat("haproxy", "HAProxy", "HAProxy httplog",
	`$client [$time] $frontend $backend $timers $status $bytes $cookie $cookie $state $connections $queues "$request"`,
	map[string]field{
		"client": {role: portRole}, "time": {role: timeRole, moment: startMoment, layout: "02/Jan/2006:15:04:05.000"},
		"timers": {role: timersRole, unit: time.Millisecond}, "status": {role: statusRole}, "bytes": {role: sizeRole},
		"queues":  {raw: true}, // captured headers may follow them
		"request": {role: requestRole, raw: true, plain: true},
	}, true)

// haproxyCLF is the log of HAProxy's option httplog clf, with the milliseconds of the time and the timers behind the
// request:
//
//	… "GET / HTTP/1.1" 200 84 "" "" 58085 300 "fe_clf" "be" "s1" 0 0 0 0 0 ---- …
var haproxyCLF = clfVariant{
	name: "haproxy-clf", plain: true, program: "HAProxy", called: "HAProxy httplog clf", moment: startMoment,
	fits: func(_ *Entry, tail string) bool {
		_, _, ok := haproxyTail(tail)
		return ok
	},
	finish: func(e *Entry, tail string) {
		if fraction, took, ok := haproxyTail(tail); ok {
			e.setTime(e.Time+fraction*1000, startMoment, false)
			e.setDuration(took * 1000)
		}
	},
}

// haproxyTail returns the fraction of the time and the duration, in milliseconds.
func haproxyTail(tail string) (fraction, took int64, ok bool) {
	port, rest, _ := strings.Cut(strings.TrimPrefix(tail, " "), " ")
	ms, rest, found := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(ms, 10, 16)
	if !found || err != nil || n > 999 || number(port) < 0 {
		return 0, 0, false
	}
	for range 3 { // frontend, backend, server
		if rest == "" || rest[0] != '"' {
			return 0, 0, false
		}
		_, rest = quoted(rest)
		rest = strings.TrimPrefix(rest, " ")
	}
	var timer string
	for range 5 {
		timer, rest, found = strings.Cut(rest, " ")
		if !found {
			return 0, 0, false
		}
	}
	took, err = strconv.ParseInt(strings.TrimPrefix(timer, "+"), 10, 64)
	return int64(n), took, err == nil
}
