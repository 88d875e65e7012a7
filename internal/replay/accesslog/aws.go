package accesslog

import "time"

// albLog is the log of AWS's application load balancer, by its documentation. It has both the end and the start:
//
//	https 2026-11-27T19:11:05.353919Z app/lb/50dc6c49 192.0.2.1:4711 10.0.0.1:80 0.000 0.052 0.000 200 200 94 12
//	"GET https://site.example:443/ HTTP/1.1" "curl/8" cipher TLSv1.2 arn "trace" "site.example" "-" 1 2026-11-27T19:11:05.302099Z …
var albLog = templateFormat("alb", "AWS ALB", "AWS ALB",
	`$type $end $balancer $client $target $first $second $third $status $status_there $received $size "$request" "$agent" `+
		`$cipher $protocol $group "$trace" "$domain" "$certificate" $priority $start`,
	map[string]field{
		"end": {role: timeRole, moment: endMoment}, "start": {role: timeRole, moment: startMoment}, "client": {role: portRole},
		"status": {role: statusRole}, "size": {role: sizeRole}, "request": {role: requestRole, raw: true},
		"agent": {role: headerRole, name: "User-Agent", raw: true}, "trace": {raw: true}, "domain": {raw: true}, "certificate": {raw: true},
	}, true)

// s3Log is the server access log of AWS's S3, by its documentation. Its time is the start, its sixth number the duration in
// milliseconds:
//
//	owner bucket [27/Nov/2026:19:11:05 +0000] 192.0.2.1 requester 3E57427F3 REST.GET.OBJECT key "GET /key HTTP/1.1" 200 - 12 12 51 50 "-" "curl/8" -
var s3Log = templateFormat("s3", "AWS S3", "AWS S3",
	`$owner $bucket [$time] $client $requester $id $operation $key "$request" $status $error $size $object $took $turnaround "$referer" "$agent"`,
	map[string]field{
		"time": {role: timeRole, moment: startMoment, layout: commonLog, coarse: true}, "client": {role: clientRole},
		"request": {role: requestRole, raw: true}, "status": {role: statusRole}, "size": {role: sizeRole},
		"took": {role: durationRole, unit: time.Millisecond}, "referer": {role: headerRole, name: "Referer", raw: true},
		"agent": {role: headerRole, name: "User-Agent", raw: true},
	}, true)
