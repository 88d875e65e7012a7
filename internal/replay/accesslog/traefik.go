package accesslog

import "strings"

// traefikCommon is the log of Traefik, whose client may be a whole X-Forwarded-For, and whose time is the start:
//
//	192.0.2.1 - - [27/Nov/2026:19:11:05 +0000] "GET / HTTP/1.1" 200 12 "-" "-" 1 "web@docker" "http://172.18.0.3:80" 51ms
var traefikCommon = clfVariant{
	name: "traefik", program: "Traefik", called: "Traefik common", moment: startMoment,
	fits: func(_ *Entry, tail string) bool {
		count, rest, _ := strings.Cut(strings.TrimPrefix(tail, " "), " ")
		if number(count) < 0 {
			return false
		}
		_, rest = quoted(rest)
		_, rest = quoted(strings.TrimPrefix(rest, " "))
		return strings.HasSuffix(rest, "ms") && number(strings.TrimSuffix(strings.TrimSpace(rest), "ms")) >= 0
	},
	finish: func(e *Entry, tail string) {
		e.tellsReferer, e.tellsAgent = false, false // by default Traefik writes dashes for all
		if ms := number(strings.TrimSuffix(tail[strings.LastIndexByte(tail, ' ')+1:], "ms")); ms >= 0 {
			e.setDuration(int64(ms) * 1000)
		}
	},
}

// traefikJSON is Traefik's log as JSON.
var traefikJSON = jsonFormat("traefik-json", "Traefik", "Traefik JSON",
	"starts=StartUTC,peer=ClientAddr,forwarded=ClientHost,method=RequestMethod,uri=RequestPath,proto=RequestProtocol,"+
		"scheme=RequestScheme,host=RequestHost,status=DownstreamStatus,size=DownstreamContentSize,duration=Duration:ns")
