package accesslog

// lighttpdLog is the log of lighttpd, which has the host in the place of the identity. Its time is the end:
//
//	192.0.2.1 site.example - [27/Nov/2026:19:22:20 +0000] "GET / HTTP/1.1" 200 12 "-" "curl/8"
var lighttpdLog = clfVariant{
	name: "lighttpd", program: "lighttpd", called: "lighttpd", moment: endMoment,
	fits: func(e *Entry, _ string) bool { return e.Host != "" && e.schemeless && e.hostBehind },
}
