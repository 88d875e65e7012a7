package main

import (
	"fmt"
	"regexp"
	"strings"
)

// clients is the number of clients of a row on Redis. They take turns, so that none comes near its limit.
const clients = 64

// storedRow is a row of redis-server.
type storedRow struct {
	name     string
	policies []string // lines of each policy
	batch    int      // requests whose takes leave together
	mixed    bool     // one request of a batch meets two policies, all others one
	after    int      // messages that follow each request, after its response
	denied   bool     // the clients have used up their limit
	floor    bool     // a script that does nothing, without Caddy
}

// servedRow is a row of Caddy, which decides in the process.
type servedRow struct {
	name   string
	site   string
	header string // lines of the requests' header; empty: only Host
	denied bool
}

// The algorithms, one of each kernel: the three of buckets differ in words only.
var algorithms = []struct{ name, lines string }{
	{"counter", hourly("sliding_window_counter")},
	{"log", hourly("sliding_window_log")},
	{"fixed", hourly("fixed_window")},
	{"bucket", hourly("token_bucket")},
	{"day", "limit 1000\nwindow day"},
}

// hourly returns the lines of a policy with a limit of 1,000 an hour.
func hourly(algorithm string) string { return "limit 1000\nwindow 1h\nalgorithm " + algorithm }

// longer returns the lines of such a policy with a window of so many hours.
func longer(algorithm string, hours int) string {
	return fmt.Sprintf("limit %d000\nwindow %[1]dh\nalgorithm %s", hours, algorithm)
}

func storedRows() []storedRow {
	rows := []storedRow{{name: "redis/empty", batch: 1, floor: true}}
	for _, a := range algorithms {
		for _, batch := range []int{1, 8, 64} {
			rows = append(rows, storedRow{name: fmt.Sprintf("redis/%s/%d", a.name, batch), policies: []string{a.lines}, batch: batch})
		}
	}
	const counter, fixed, bucket, log = "sliding_window_counter", "fixed_window", "token_bucket", "sliding_window_log"
	two := func(algorithm string) []string { return []string{hourly(algorithm), longer(algorithm, 24)} }
	four := func(algorithm string) []string {
		return append(two(algorithm), longer(algorithm, 48), longer(algorithm, 96))
	}
	return append(rows,
		storedRow{name: "redis/two/counters/1", policies: two(counter), batch: 1},
		storedRow{name: "redis/two/counters/32", policies: two(counter), batch: 32},
		storedRow{name: "redis/two/fixed/32", policies: two(fixed), batch: 32},
		storedRow{name: "redis/two/buckets/32", policies: two(bucket), batch: 32},
		storedRow{name: "redis/two/logs/32", policies: two(log), batch: 32},
		storedRow{name: "redis/two/log+bucket/32", policies: []string{hourly(log), longer(bucket, 24)}, batch: 32},
		storedRow{name: "redis/two/counter+bucket/32", policies: []string{hourly(counter), longer(bucket, 24)}, batch: 32},
		storedRow{name: "redis/two/counter+day/32", policies: []string{hourly(counter), "limit 20000\nwindow day"}, batch: 32},
		storedRow{name: "redis/three/counters/32", policies: four(counter)[:3], batch: 32},
		storedRow{name: "redis/four/counters/32", policies: four(counter), batch: 32},
		storedRow{name: "redis/four/fixed/32", policies: four(fixed), batch: 32},
		storedRow{name: "redis/63+two/counters/64", policies: two(counter), batch: 64, mixed: true},
		storedRow{name: "redis/denied/1", policies: []string{"limit 1\nwindow 1h"}, batch: 1, denied: true},
		storedRow{name: "redis/denied/64", policies: []string{"limit 1\nwindow 1h"}, batch: 64, denied: true},
		storedRow{name: "redis/denied/two/32", policies: []string{"limit 1\nwindow 1h", longer(counter, 24)}, batch: 32, denied: true},
		storedRow{name: "redis/count_if/1", policies: []string{hourly(counter) + "\ncount_if status 4xx"}, batch: 1, after: 1},
		storedRow{name: "redis/running/1", policies: []string{"max_concurrent 1000"}, batch: 1, after: 1},
	)
}

// clientKey is the header that names a client.
const clientKey = "{http.request.header.X-Key}"

// The paths of a recorded site.
const (
	pathPlug  = "/plug"  // its answer is withheld, so that others have to wait
	pathFirst = "/first" // only the first policy
	pathAll   = "/all"
)

// site returns the directives of the row's Caddy.
func (r storedRow) site() string {
	routes := []string{route(pathPlug, []string{"limit 1000000\nwindow 1h\nname plug"})}
	named := make([]string, len(r.policies))
	for i, lines := range r.policies {
		named[i] = fmt.Sprintf("%s\nname p%d", lines, i)
	}
	return strings.Join(append(routes, route(pathFirst, named[:1]), route(pathAll, named)), "\n")
}

// route returns a route with policies whose last line is their name.
func route(path string, policies []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "handle %s {\nredis_ratelimit {\n", path)
	for _, lines := range policies {
		lines, name, _ := strings.Cut(lines, "\nname ")
		fmt.Fprintf(&b, "policy %s {\nkey %s\n%s\n}\n", name, clientKey, lines)
	}
	b.WriteString("}\nrespond 200\n}")
	return b.String()
}

// plain is the row with which the others of Caddy are compared.
const plain = "caddy/plain"

func servedRows() []servedRow {
	one := func(limit, name, headers string) string {
		return fmt.Sprintf("redis_ratelimit {client_ip} %s {\nname %s\nheaders %s\n}\nrespond 200", limit, name, headers)
	}
	several := func(policies int) string {
		var b strings.Builder
		b.WriteString("redis_ratelimit {\nheaders off\n")
		for i := range policies {
			fmt.Fprintf(&b, "policy several%d_%d {\nlimit 1000000\nwindow %dm\n}\n", policies, i, i+1)
		}
		b.WriteString("}\nrespond 200")
		return b.String()
	}
	// Who is refused what is reserved gets a line of text, or the page that waits, which the commits before had only for limits.
	reserved := func(name, challenge string) string {
		return fmt.Sprintf("redis_ratelimit {client_ip} 2 24h {\nname %s\nheaders off\nreserve 1\n%s\n}\nrespond 200", name, challenge)
	}
	const page = "Accept: text/html\r\n"
	const others = "rate_limit {\nzone %s {\nkey {client_ip}\nevents %d\nwindow 24h\n}\n}\nrespond 200"
	return []servedRow{
		{name: plain, site: "respond 200"},
		{name: "caddy/one", site: one("1000000 1m", "one", "off")},
		{name: "caddy/one/headers", site: one("1000000 1m", "one_headers", "x_ratelimit")},
		{name: "caddy/two", site: several(2)},
		{name: "caddy/three", site: several(3)},
		{name: "caddy/four", site: several(4)},
		{name: "caddy/denied", site: one("1 24h", "denied", "off"), denied: true},
		{name: "caddy/denied/headers", site: one("1 24h", "denied_headers", "x_ratelimit"), denied: true},
		{name: "caddy/denied/reserve", site: reserved("reserve", ""), header: page, denied: true},
		{name: "caddy/denied/page", site: reserved("page", "challenge"), header: page, denied: true},
		{name: "caddy/mholt", site: fmt.Sprintf(others, "passing", 100_000)},
		{name: "caddy/mholt/denied", site: fmt.Sprintf(others, "denying", 1), denied: true},
	}
}

// selected returns the rows whose name matches. The plain Caddy is measured with any other.
func selected(rows *regexp.Regexp) (stored []storedRow, served []servedRow) {
	for _, r := range storedRows() {
		if rows.MatchString(r.name) {
			stored = append(stored, r)
		}
	}
	for _, r := range servedRows() {
		if rows.MatchString(r.name) {
			served = append(served, r)
		}
	}
	if len(served) > 0 && served[0].name != plain {
		served = append(servedRows()[:1], served...)
	}
	return stored, served
}
