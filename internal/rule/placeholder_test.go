package rule

import (
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

func TestParseKey_says_what_is_wrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "empty",
		"{":                   "not closed",
		"a{p.0":               "not closed",
		"{}":                  "no placeholder",
		"{{p.0}}":             "no placeholder",
		"{client_ip}":         "in JSON write {http.vars.client_ip}",
		"{header.X-Api-Key}":  "in JSON write {http.request.header.X-Api-Key}",
		"{cookie.sid}-{p.0}":  "in JSON write {http.request.cookie.sid}",
		"{p.0}{query.a.b}":    "in JSON write {http.request.uri.query.a.b}",
		"{p.0}-{clientip}":    "did you mean {client_ip}? In JSON it is {http.vars.client_ip}",
		"{p.0}-{remote_ip}-x": "write {client_ip}, or {remote_host}",

		"'":                     "nothing but quotes",
		"it's":                  "write key its",
		"`{p.0}`":               "write key {p.0}",
		`{p.0}\"`:               `write key {p.0}\`,
		"{p.0}$http_host":       "$http_host is no placeholder but a text, the same for all clients; write {host}. In JSON",
		"$request_uri":          "write {uri}. In JSON it is {http.request.uri}",
		"$uri":                  "write {path}",
		"$arg_token":            "write {query.token}",
		"$http_x_forwarded_for": "write {client_ip}",
		"$remote_user":          "write {http.auth.user.id}",
		"tls-version":           "write {tls_version}",
		"cookie.sid":            "write {cookie.sid}",
		"http.auth.user.id":     "write {http.auth.user.id}",
	} {
		_, err := ParseKey(text, exact)
		assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "%q: got error %v, want one about %q", text, err, want)
	}
}

// TestParseKey_takes_literals that are no names of placeholders.
func TestParseKey_takes_literals(t *testing.T) {
	for _, text := range []string{
		"everyone", "static", "all", "same", "api", "login", "x", "$", "5$", "cost$", "p.0", "user", "client", "{p.0}ip", "ip:{p.0}",
		"a b", "http", "api.example.com", "{p.0}$cents", `\{ip\}`, "%{p.0}", "x-", "http.", "{client.name}", "{request.id}", "{remotehosts}",
	} {
		_, err := ParseKey(text, exact)
		assert.ErrorIf(t, err != nil, "%q: %v", text, err)
	}
}

// TestPlaceholders reads names as a key and as a number alike.
func TestPlaceholders(t *testing.T) {
	for name, want := range map[string]string{
		"clientip":          "did you mean {client_ip}? In JSON it is {http.vars.client_ip}",
		"Client-IP":         "did you mean {client_ip}",
		"tls_clientSubject": "did you mean {tls_client_subject}",
		"Host":              "did you mean {host}? In JSON it is {http.request.host}",
		"Header.X-Api-Key":  "did you mean {header.X-Api-Key}? In JSON it is {http.request.header.X-Api-Key}",
		"file-match.type":   "did you mean {file_match.type}",
		"host":              "in JSON write {http.request.host}",
		"%path":             "in JSON write {http.request.uri.path_escaped}",
		"vars.plan.limit":   "in JSON write {http.vars.plan.limit}",
		"remote_ip":         "write {client_ip}, or {remote_host} for the address of the connection",
		"RemoteIP":          "write {client_ip}",
		"remote.ip":         "write {client_ip}, or {remote_host} for the address of the connection",
		"client.ip":         "did you mean {client_ip}",
		"remote.host":       "did you mean {remote_host}",
		"tls.version":       "did you mean {tls_version}",

		"http.request.client_ip":     "did you mean {client_ip}? In JSON it is {http.vars.client_ip}",
		"http.request.remote_host":   "did you mean {remote_host}? In JSON it is {http.request.remote.host}",
		"http.request.headers.X-Key": "did you mean {header.X-Key}? In JSON it is {http.request.header.X-Key}",
		"http.request.Header.X-Key":  "did you mean {header.X-Key}",
		"http.request.cookies.a.b":   "did you mean {cookie.a.b}",
		"http.request.uri_path":      "did you mean {path}",
		"http.var.plan":              "did you mean {vars.plan}",
		"http.request.remote_ip":     "In JSON they are {http.vars.client_ip} and {http.request.remote.host}",

		"plan": "", "plan_limit": "", "tenant.id": "", "ip": "", "client": "", "jwt.sub": "", "http.vars.plan": "",
		"http.request.host": "", "http.request.uri.path.file": "", "http.request.uri.path.0": "", "http.request.remote": "",
		"http.request.headers":   "",
		"file./run/secrets/plan": "", "http.request.remote.host": "", "http.auth.user.id": "", "api key": "",
	} {
		_, asKey := ParseKey("{"+name+"}", exact)
		_, asNumber := ParsePlaceholder("limit", "{"+name+"}")
		for option, err := range map[string]error{"key": asKey, "limit": asNumber} {
			if (want == "") != (err == nil) {
				t.Errorf("%s {%s}: got error %v, want one about %q", option, name, err, want)
			} else if err != nil && (!strings.HasPrefix(err.Error(), option+": ") || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s {%s}: got error %v, want one about %q", option, name, err, want)
			}
		}
	}
}

// TestShorthands_are_those_of_Caddy reads the names from Caddy's own replacer.
func TestShorthands_are_those_of_Caddy(t *testing.T) {
	replacer := reflect.ValueOf(httpcaddyfile.NewShorthandReplacer())
	var names, dotted []string
	pairs := replacer.FieldByName("simple").Elem().FieldByName("oldnew")
	for i := 0; i < pairs.Len(); i += 2 {
		names = append(names, strings.Trim(pairs.Index(i).String(), "{}"))
	}
	patterns := replacer.FieldByName("complex")
	prefix := regexp.MustCompile(`^\{(\w+)\\\.`)
	for i := range patterns.Len() {
		text := patterns.Index(i).FieldByName("search").Elem().FieldByName("expr").String()
		if match := prefix.FindStringSubmatch(text); len(match) == 2 && match[1] != "file" { // {file.<path>} also reads files
			dotted = append(dotted, match[1])
		}
	}
	names = append(names, credentialShort)
	dotted = append(dotted, ownShorthands...)
	for known, want := range map[*[]string][]string{&shorthands: names, &dottedShorthands: dotted} {
		got := slices.Sorted(slices.Values(*known))
		assert.ErrorIf(t, !slices.Equal(got, slices.Sorted(slices.Values(want))) || len(got) == 0, "got %q, want %q", got, want)
	}
}

// TestShortNames_are_replaced_by_Caddy_again writes full names as in a Caddyfile.
func TestShortNames_are_replaced_by_Caddy_again(t *testing.T) {
	for text, want := range map[string]string{
		"{http.vars.client_ip}": "{client_ip}", "a:{http.request.header.X-User}{http.request.uri}": "a:{header.X-User}{uri}",
		"{http.request.uri.path.1}": "{path.1}", "{http.request.uri.path}": "{path}", "{http.vars.plan}": "{vars.plan}",
		"{http.auth.user.id}": "{http.auth.user.id}", "x": "x",
	} {
		assert.Equal(t, ShortNames(text), want, "the text with short names")
	}
}

// neverSet makes a set of a rule with a key and a limit from placeholders. Its warnings are counted by option.
func neverSet(t *testing.T, key string) (set *Set, warnings map[string]int) {
	t.Helper()
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 1000, Window: time.Hour, Algorithm: "gcra", Dynamic: true}))(t)
	r := Rule{Policy: policy, Numbers: numbers{Weight: 1, Variants: NewVariants(policy)}, OnEmptyKey: EmptyKeyClientIP}
	r.Key = assert.NoError(ParseKey(key, exact))(t)
	r.Numbers.LimitFrom = assert.NoError(ParsePlaceholder("limit", "{p.limit}"))(t)
	set, warnings = NewSet([]Rule{r}), map[string]int{}
	set.OnNeverSet = func(_ *Rule, option, placeholder string) { warnings[option+" "+placeholder]++ }
	return set, warnings
}

func TestOnNeverSet(t *testing.T) {
	full := map[string]string{"p.0": "x", "p.limit": "9"}
	for name, test := range map[string]struct {
		key      string
		requests func(i int) map[string]string
		want     map[string]int
	}{
		"all empty":            {"{p.0}", func(int) map[string]string { return nil }, map[string]int{"key p.0": 1, "limit p.limit": 1}},
		"one of two":           {"{p.1}-{p.0}", func(int) map[string]string { return map[string]string{"p.1": "x"} }, map[string]int{"key p.0": 1, "limit p.limit": 1}},
		"behind an empty one":  {"{p.9}-{p.0}", func(int) map[string]string { return full }, map[string]int{"key p.9": 1}},
		"none empty":           {"{p.0}", func(int) map[string]string { return full }, map[string]int{}},
		"the first alone set":  {"{p.0}", func(i int) map[string]string { return map[bool]map[string]string{true: full}[i == 0] }, map[string]int{}},
		"the 100th alone set":  {"{p.0}", func(i int) map[string]string { return map[bool]map[string]string{true: full}[i == 99] }, map[string]int{}},
		"the 101st alone set":  {"{p.0}", func(i int) map[string]string { return map[bool]map[string]string{true: full}[i == 100] }, map[string]int{"key p.0": 1, "limit p.limit": 1}},
		"values with braces":   {"{p.0}", func(int) map[string]string { return map[string]string{"p.0": "{}", "p.limit": "{p.0}"} }, map[string]int{}},
		"addresses":            {"{http.vars.client_ip}", func(int) map[string]string { return full }, map[string]int{}},
		"99 requests, no more": {"{p.0}", nil, map[string]int{}},
	} {
		set, warnings := neverSet(t, test.key)
		requests := 300
		if test.requests == nil {
			requests, test.requests = 99, func(int) map[string]string { return nil }
		}
		for i := range requests {
			r, repl := keyRequest("", test.requests(i))
			assert.Must(t, set.Evaluate(r, repl, new(Evaluation)))
		}
		assert.ErrorIf(t, !maps.Equal(warnings, test.want), "%s: got %v, want %v", name, warnings, test.want)
	}
}

func TestOnNeverSet_allocates_nothing(t *testing.T) {
	for _, values := range []map[string]string{nil, {"p.0": "x"}} {
		p := assert.NoError(ParsePlaceholder("limit", "{p.0}"))(t)
		warned := 0
		if n := testing.AllocsPerRun(300, func() {
			if p.recordValue(nil, values["p.0"]); p.isNeverSet() {
				warned++
			}
		}); n != 0 || (warned == 1) != (values == nil) {
			t.Errorf("%v: %v allocations and %d warnings", values, n, warned)
		}
	}
}

// TestVariants_with_together has many requests bring the same new limit at once. All get one policy: leases and
// denials are of a policy.
func TestVariants_with_together(t *testing.T) {
	base := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "plans", Algorithm: limiter.GCRA, Limit: 1, Window: time.Minute, Dynamic: true}))(t)
	v := NewVariants(base)
	for limit := int64(2); limit < 1000; limit++ {
		var policies [8]*limiter.Policy
		var requests sync.WaitGroup
		for i := range policies {
			requests.Go(func() { policies[i], _ = v.withLimit(limit, 0) })
		}
		requests.Wait()
		for _, p := range policies {
			assert.FatalIf(t, p == nil || p != policies[0], "two policies of limit %d", limit)
		}
	}
}

// TestVariants_monthsFrom has many requests bring the same new day at once: all get one policy, with the limit that it had.
func TestVariants_monthsFrom(t *testing.T) {
	base := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "months", Calendar: "month@5", Limit: 7}))(t)
	v := NewVariants(base)
	higher := assert.NoError(v.withLimit(9, 0))(t)
	for _, of := range []*limiter.Policy{base, higher} {
		for day := 1; day <= mostDays; day++ {
			var policies [8]*limiter.Policy
			var requests sync.WaitGroup
			for i := range policies {
				requests.Go(func() { policies[i], _ = v.moved(of, day) })
			}
			requests.Wait()
			for _, p := range policies {
				assert.FatalIf(t, p == nil || p != policies[0] || p.Limit() != of.Limit(), "day %d of limit %d: %v", day, of.Limit(), p)
			}
			want := "months:p31d@" + strconv.Itoa(day)
			if day == 1 {
				want = "months:p31d"
			}
			assert.Equal(t, policies[0].ID, want, "the states of day %d", day)
			assert.ErrorIf(t, (policies[0] == of) != (day == 5), "day %d: the policy itself", day)
		}
		assert.Equal(t, len(v.EachDay(of)), 31, "the policies of all days")
	}
}

// TestParseDay refuses what clients write.
func TestParseDay(t *testing.T) {
	for _, name := range []string{
		"http.auth.user.billing_day", "http.auth.user.id", "http.vars.day", "billing_day", "http.request.tls.client.subject", "file./run/day", "env.DAY",
	} {
		_, err := ParseDay("{" + name + "}")
		assert.ErrorIf(t, err != nil, "%s: %v", name, err)
	}
	for _, name := range []string{
		"http.request.header.X-Day", "http.request.header.Authorization", "http.request.cookie.day", "http.request.uri.query.day", "http.request.uri.path.1",
		"http.request.uri.path", "http.request.uri", "http.request.orig_uri.path", "http.request.host.labels.0", "http.request.body", "http.request.method",
		"http.redis_ratelimit.json.day", "http.redis_ratelimit.form.day", "http.regexp.day.1", "http.vars.client_ip",
	} {
		_, err := ParseDay("{" + name + "}")
		if err == nil || !strings.Contains(err.Error(), "clients write this value") || !strings.Contains(err.Error(), "{http.auth.user.<name>}") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// TestParseCost_factors refuses sums and placeholders of factors that cannot be, by the words of the option.
func TestParseCost_factors(t *testing.T) {
	cost, err := ParseCost("json {price_in}*a-{http.request.header.X-Price}*b+0.5*c", 7)
	source, ok := cost.source.(*jsonCost)
	if err != nil || !ok || len(source.prices) != 2 || source.prices[0].Name != "price_in" || source.prices[1].field.kind != headerField {
		t.Errorf("got %+v, %v", cost, err)
	}
	for from, want := range map[string]string{
		"json a*2":                  `cost json a*2: "a" is no factor`,
		"json {}*a":                 "cost {}: use one placeholder",
		"json {header.X}*a":         "in JSON write {http.request.header.X}",
		"json {a}*b+{http.x.{y}}*c": `"{http.x.{y}}" is no factor`,
	} {
		if _, err := ParseCost(from, 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", from, err, want)
		}
	}
}

// reservePolicy is a window of that capacity.
func reservePolicy(t *testing.T, capacity int64) *limiter.Policy {
	t.Helper()
	return assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Limit: capacity, Window: time.Second}))(t)
}

func TestReserve_Of(t *testing.T) {
	for _, c := range []struct {
		text           string
		capacity, want int64
	}{
		{"", 100, 0}, {"0", 100, 0}, {"0%", 100, 0}, {"20", 100, 20}, {"20%", 100, 20}, {"20%", 99, 20}, {"1%", 1000, 10}, {"1%", 10, 1},
		{"1%", 2, 1}, {"1%", 1, 0}, {"99%", 10, 9}, {"99%", 100, 99}, {"50", 50, 49}, {"50", 1, 0}, {"9223372036854775807", 10, 9}, {"99%", 1 << 32, 4252017624},
	} {
		reserve, err := ParseReserve(c.text)
		if got := reserve.of(reservePolicy(t, c.capacity)); err != nil || got != c.want {
			t.Errorf("reserve %q of %d is %d, %v; want %d", c.text, c.capacity, got, err, c.want)
		}
	}
	none := reservePolicy(t, 10).None()
	got := (Reserve{Percent: 50}).of(none)
	assert.ErrorIf(t, got > 0, "leaves %d of a limit of 0", got)
}

func TestParseReserve_errors(t *testing.T) {
	for _, text := range []string{"%", "-1", "+1", "1.5", "1e3", "20 %", "20%%", "%20", "0x10", "100%", "1_000", "9223372036854775808", "18446744073709551616%", "{http.vars.reserve}"} {
		if reserve, err := ParseReserve(text); err == nil || !strings.Contains(err.Error(), "use") {
			t.Errorf("reserve %q is %+v, %v; want an error that says what to write", text, reserve, err)
		}
	}
}

func TestReserve_Check(t *testing.T) {
	for _, c := range []struct {
		text             string
		capacity, weight int64
		dynamic, ok      bool
	}{
		{"99", 100, 1, false, true}, {"100", 100, 1, false, false}, {"100", 100, 1, true, true}, {"50", 100, 50, false, true}, {"51", 100, 50, false, false},
		{"99%", 10, 1, false, true}, {"99%", 10, 2, false, false}, {"1", 1, 1, false, false}, {"1", 1, 1, true, false}, {"", 1, 1, false, true}, {"0", 1, 1, false, true},
		{"1", 100, 100, false, false}, {"99", 100, math.MaxInt64, false, false},
	} {
		reserve := assert.NoError(ParseReserve(c.text))(t)
		if err := reserve.Check(reservePolicy(t, c.capacity), c.weight, c.dynamic); (err == nil) != c.ok {
			t.Errorf("reserve %s of %d with weight %d: %v", c.text, c.capacity, c.weight, err)
		}
	}
}
