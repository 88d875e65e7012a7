package accesslog

import (
	"strings"
	"time"
)

// squidNative is Squid's own log. Its time is the end, the next number the duration in milliseconds:
//
//	1795807417.313      6 192.0.2.1 TCP_MISS/200 217 GET http://site.example/ - FIRSTUP_PARENT/192.0.2.9 text/plain
var squidNative = templateFormat("squid", "Squid", "Squid native", `$time $took $client $result $size $method $uri $user $peer $type`,
	map[string]field{
		"time": {role: timeRole, moment: endMoment}, "took": {role: durationRole, unit: time.Millisecond},
		"client": {role: clientRole}, "result": {role: resultRole}, "size": {role: sizeRole}, "method": {role: methodRole},
		"uri": {role: uriRole, raw: true, plain: true}, "user": {role: userRole},
	}, false)

// squidCommon is Squid's log in Common or Combined Log Format, whose time is the end:
//
//	192.0.2.1 - - [27/Nov/2026:19:23:37 +0000] "GET http://site.example/ HTTP/1.1" 200 217 TCP_MISS:FIRSTUP_PARENT
var squidCommon = clfVariant{
	name: "squid-common", plain: true, program: "Squid", called: "Squid common", moment: endMoment,
	fits: func(_ *Entry, tail string) bool {
		result, route, found := strings.Cut(strings.TrimPrefix(tail, " "), ":")
		return found && isCode(result) && isCode(route)
	},
}

// isCode reports whether a word is one of Squid's codes, such as TCP_MISS.
func isCode(word string) bool {
	for i := range len(word) {
		if c := word[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return word != ""
}
