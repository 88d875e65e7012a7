package accesslog

import "strings"

// varnishLog is the log of varnishncsa: Combined Log Format with absolute URLs, whose time is the start:
//
//	192.0.2.1 - - [27/Nov/2026:19:22:37 +0000] "GET http://site.example/ HTTP/1.1" 200 12 "-" "curl/8"
var varnishLog = clfVariant{
	name: "varnish", program: "Varnish", called: "varnishncsa", moment: startMoment,
	fits: func(e *Entry, tail string) bool {
		return e.absolute && strings.Trim(tail, " 0123456789") == "" // -F with %D has microseconds
	},
	finish: func(e *Entry, tail string) {
		if took := strings.TrimSpace(tail); took != "" {
			e.setDuration(length(took))
		}
	},
}
