package accesslog

import "time"

// envoyLog is Envoy's default log, by its documentation. Its time is the start. It has no client but X-Forwarded-For:
//
//	[2026-11-27T19:11:05.302Z] "GET / HTTP/1.1" 200 - 0 12 51 51 "192.0.2.1" "curl/8" "3f1a6b52" "site.example" "10.0.0.7:80"
var envoyLog = templateFormat("envoy", "Envoy", "Envoy default",
	`[$time] "$request" $status $flags $received $size $took $upstream "$forwarded" "$agent" "$id" "$host" "$server"`,
	map[string]field{
		"time": {role: timeRole, moment: startMoment}, "request": {role: requestRole, raw: true}, "status": {role: statusRole},
		"size": {role: sizeRole}, "took": {role: durationRole, unit: time.Millisecond}, "forwarded": {role: forwardedRole, raw: true},
		"agent": {role: headerRole, name: "User-Agent", raw: true}, "host": {role: hostRole, raw: true}, "id": {raw: true},
	}, true)
