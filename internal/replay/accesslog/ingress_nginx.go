package accesslog

import (
	"strconv"
	"strings"
)

// ingressNginx is the log of ingress-nginx: that of nginx, with more behind it. Its time is the end:
//
//	… "GET / HTTP/1.1" 200 12 "-" "curl/8" 94 0.002 [default-web-80] [] 10.0.0.7:8080 12 0.001 200 0eb9e79f
var ingressNginx = clfVariant{
	name: "ingress-nginx", program: "ingress-nginx", called: "ingress-nginx", moment: endMoment,
	fits: func(_ *Entry, tail string) bool {
		_, ok := ingressTail(tail)
		return ok
	},
	finish: func(e *Entry, tail string) {
		if took, ok := ingressTail(tail); ok {
			e.setDuration(took)
		}
	},
}

// ingressTail returns how long a request took, in microseconds.
func ingressTail(tail string) (took int64, ok bool) {
	bytes, rest, _ := strings.Cut(strings.TrimPrefix(tail, " "), " ")
	seconds, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseFloat(seconds, 64)
	if err != nil || !(n >= 0 && n < 1e9) || number(bytes) < 0 || !strings.HasPrefix(rest, "[") || !strings.Contains(rest, "] [") {
		return 0, false
	}
	return int64(n * 1e6), true
}
