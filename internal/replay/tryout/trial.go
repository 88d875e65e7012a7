package tryout

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/simulate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// begins is the time of the first request. All periods of the calendar begin there, so that they last longest.
var begins = time.Date(2018, time.January, 1, 0, 0, 0, 0, time.UTC)

const (
	mostRequests = 1000 // that are played one by one; of a larger quota the rest is taken by one charge
	fewRequests  = 20   // as above, where the number itself is known already
	leftByCharge = 10   // requests that are left for
	ranFor       = time.Hour
)

// trial plays the requests of one policy at one handler.
type trial struct {
	ctx        context.Context
	simulation *simulate.Simulation
	place      *simulate.Place
	places     []simulate.Place // of the policy
	given      *given
	setters    map[string]string

	now       time.Time
	refusedAt time.Time
	base      *request
	counted   answered // what is answered so that requests count
	answered  caddyhttp.MiddlewareHandler
	result    PlayedPolicy
}

// answered is a response.
type answered struct {
	status int
	header http.Header
	size   int64
	time   time.Duration
}

// outcome is what became of a request at the policy.
type outcome struct {
	simulate.Probed
	check *limiter.Check // of the policy; nil: the request did not meet it
}

func (o *outcome) isRefused() bool { return o.check != nil && !o.check.Result.Passes() }

// play plays all requests.
func (t *trial) play() PlayedPolicy {
	r := t.place.Rule
	description := r.Describe()
	t.result = PlayedPolicy{Name: r.Policy.Name(), Limit: description.Sentence()}
	t.simulation.Isolate(t.result.Name, t.places)
	t.answers()
	if t.result.NotPlayed = t.findBase(); t.result.NotPlayed != "" {
		return t.result
	}
	t.result.Request, t.result.Site = t.base.text(), t.base.host
	t.tellOptions()
	used := t.useUp(t.base, mostRequests)
	switch t.result.RefusedAfter = used.passed; {
	case used.passed < 0 && t.ctx.Err() != nil:
		t.result.NotPlayed = outOfTime
		return t.result
	case used.passed < 0:
		return t.result
	}
	t.playOther()
	t.playForged(&used)
	t.playFree(&used)
	t.playAtOnce()
	t.playIgnored()
	t.playSpellings()
	if t.ctx.Err() != nil {
		t.result.NotPlayed = outOfTime
	}
	return t.result
}

// begin forgets all requests.
func (t *trial) begin() {
	t.simulation.Forget()
	t.now = begins
}

// send plays a request.
func (t *trial) send(r *request, a answered) outcome {
	probe := simulate.Probe{Body: r.body, Values: t.given.values, Response: a.header, Entry: accesslog.Entry{
		Time: t.now.UnixMicro(), Client: r.client, Remote: r.client, Method: r.method, Host: r.host, URI: r.target, Proto: "HTTP/1.1",
		Header: r.header, TLS: r.tls, Status: a.status, Size: a.size, User: t.given.values["http.auth.user.id"],
	}}
	if a.time > 0 {
		probe.Ends = probe.Time + a.time.Microseconds()
	}
	if len(r.body) > 0 {
		probe.Header = r.header.Clone()
		probe.Header.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	o := outcome{Probed: t.simulation.Send(&probe)}
	for i := range o.Checks {
		if c := &o.Checks[i]; !rule.OnlyLooks(c) {
			o.check = c
			break
		}
	}
	return o
}

// findBase finds a request that meets the policy, and returns why there is none.
func (t *trial) findBase() (reason string) {
	r := t.place.Rule
	unset := t.given.unset(r)
	candidates, unknown := t.given.candidates(t.place)
	closest := 0
	for _, candidate := range candidates {
		if t.ctx.Err() != nil {
			return outOfTime
		}
		t.begin()
		o := t.send(candidate, t.counted)
		nearness, why := 1, ""
		switch {
		case o.check != nil && !rule.IsAddressKey(o.check.Key):
			t.base, t.answered = candidate, o.Answered
			return t.reasonOfSetter()
		case o.check != nil, o.Outcome == limiter.OutcomeRejected && len(unset) > 0, o.leavesOut():
			nearness, why = 4, t.emptyKey(unset)
		case o.Outcome == limiter.OutcomeRejected:
			nearness, why = 3, "the request is refused with 400, as a value of it cannot be read; give others by --url, -X, -H, -d"
		case o.Outcome == limiter.OutcomeExempt:
			nearness, why = 2, "the client is exempt"
		case len(unknown) > 0:
			why = "a matcher asks for what cannot be made up (" + strings.Join(unknown, ", ") + "); give a request by --url, -X, -H, -d"
		default:
			why = "no request that was made up comes to it: earlier routes answer, or its matchers exclude each other; " +
				"give one by --url, -X, -H, -d"
		}
		if nearness > closest {
			closest, reason = nearness, why
		}
	}
	return reason
}

// leavesOut reports whether the policy left a request out since its key was empty.
func (o *outcome) leavesOut() bool { return len(o.Policies) > 0 && o.Policies[0].LeftOut }

// emptyKey says why the key is empty.
func (t *trial) emptyKey(unset []string) string {
	if len(unset) == 0 {
		return "its key " + rule.ShortNames(t.place.Rule.Texts.Key) + " is empty in requests that were made up; give values by --url, -H, -d"
	}
	name := strings.Trim(unset[0], "{}")
	if rule.IsOfCrawler(name) {
		return "its key " + unset[0] + " goes by crawlers, which are told by the DNS, and that is not asked here"
	}
	name = strings.TrimPrefix(name, "http.auth.")
	return fmt.Sprintf("its key %s is empty: what sets it is not run, or sets it for other requests; give a value by --as %s=bob, or the request by --url, -H",
		unset[0], name)
}

// reasonOfSetter returns why a policy is not played whose key is a header that a log-in sets.
func (t *trial) reasonOfSetter() string {
	for _, v := range keyValues(t.place.Rule) {
		name := http.CanonicalHeaderKey(v.name)
		if setter := t.setters[name]; v.kind == "header" && setter != "" && t.given.header.Get(name) == "" {
			return fmt.Sprintf("its key %s is set by %s, which is not run; give a value by --as header.%s=bob", v.text(), setter, name)
		}
	}
	return ""
}

// answers finds responses that count_if counts and does not, and that cost something.
func (t *trial) answers() {
	r := t.place.Rule
	t.counted = answered{status: http.StatusOK}
	if r.CountIf != nil {
		header := http.Header{}
		for name, values := range r.CountIf.Headers {
			header.Set(name, firstValue(values))
		}
		statuses := slices.Concat(r.CountIf.StatusCode, []int{401, 403, 404, 400, 422, 200, 302, 500})
		for _, status := range statuses {
			if status < 100 { // a class
				status *= 100
			}
			if response := (rule.Response{Status: status, Header: header}); r.CountsLook(&response) {
				t.counted, t.result.Counts = answered{status: status, header: header}, status
				break
			}
		}
		for _, status := range []int{200, 404, 401, 500, 302} {
			if response := (rule.Response{Status: status, Header: http.Header{}}); !r.CountsLook(&response) {
				t.result.Ignores = status
				break
			}
		}
	}
	t.addCost()
	if r.Policy.CountsRunning {
		t.counted.time = ranFor
	}
}

// addCost has the counted response cost a fifth of the quota.
func (t *trial) addCost() {
	r := t.place.Rule
	if r.Cost.From == "" {
		return
	}
	cost := max(1, r.Policy.Capacity()/5)
	name, inHeader := r.Cost.Header()
	switch {
	case inHeader:
		t.counted.header = t.counted.header.Clone()
		if t.counted.header == nil {
			t.counted.header = http.Header{}
		}
		t.counted.header.Set(name, strconv.FormatInt(cost, 10))
	case r.Cost.From == rule.ResponseBytes:
		t.counted.size = cost
	case r.Cost.TimesBackend():
		t.counted.time = min(time.Duration(cost)*time.Millisecond, ranFor)
	default:
		t.note("what a response costs is not made up: its fallback counts, " + display.Count(r.Cost.Fallback))
		return
	}
	t.note("each response costs " + display.Count(cost) + " of " + display.Count(r.Policy.Capacity()) + " here")
}

func (t *trial) note(text string) { t.result.Notes = append(t.result.Notes, text) }

// tellOptions notes options that change what a refusal means.
func (t *trial) tellOptions() {
	r := t.place.Rule
	if r.DryRun {
		t.note("dry_run: nothing is refused in fact")
	}
	if reserve := r.Reserve; reserve != (rule.Reserve{}) {
		t.note("reserve: what stays for others is not used up")
	}
	if r.Wait.Longest > 0 {
		t.note("who is refused here waits for up to " + display.Duration(r.Wait.Longest))
	}
	if r.Challenge.Passes > 0 {
		t.note("a browser that is refused gets the page of challenge; its passes are not played")
	}
	if unasked := t.place.Server.Unasked; unasked != "" {
		t.note("trusted_proxies " + unasked + " are not asked: what a proxy writes is not played")
	}
}

// usedUp is a quota that is used up.
type usedUp struct {
	passed int64         // requests; -1: none was refused
	check  limiter.Check // of the one that was refused
}

// useUp plays a request until it is refused: so many one by one, of a larger quota the last ones. Requests whose time is what they cost
// come one after another.
func (t *trial) useUp(r *request, most int64) usedUp {
	t.begin()
	passed, left := int64(0), int64(0)
	for sent := int64(0); sent <= most+2*leftByCharge && t.ctx.Err() == nil; sent++ {
		o := t.send(r, t.counted)
		switch {
		case o.check == nil:
			return usedUp{passed: -1}
		case o.isRefused():
			t.refusedAt = t.now
			return usedUp{passed, *o.check}
		}
		passed++
		if t.place.Rule.Cost.TimesBackend() {
			t.now = t.now.Add(t.counted.time)
		}
		if sent == 1 {
			cost := max(1, left-o.check.Result.Remaining)
			more := (o.check.Result.Remaining-o.check.Reserve)/cost - leftByCharge
			if more > most-leftByCharge && t.simulation.Charge(o.check, more*cost) {
				passed += more
			}
		}
		left = o.check.Result.Remaining
	}
	return usedUp{passed: -1}
}

// playOther plays another client, when the first one is refused.
func (t *trial) playOther() {
	other := t.base.clone()
	if other.client = madeAddresses[otherClient]; t.base.client != madeAddresses[firstClient] {
		if address, err := netip.ParseAddr(t.base.client); err == nil {
			other.client = address.Next().String()
		}
	}
	values := keyValues(t.place.Rule)
	for _, v := range values {
		v.give(other, otherClient)
	}
	if t.given.Body == nil && other.body != nil {
		other.body, _ = bodyFor(values, t.place.Rule.BodyOptions(), otherClient)
	}
	kept := t.given.values
	t.given.values = map[string]string{}
	for name, value := range kept {
		t.given.values[name] = value + "2"
	}
	o := t.send(other, t.counted)
	t.given.values = kept
	switch {
	case o.check == nil:
		t.result.Other = "none"
	case o.isRefused():
		t.result.Other = "same"
	default:
		t.result.Other = "own"
	}
}

// playFree finds out how long the client that is refused has to wait.
func (t *trial) playFree(used *usedUp) {
	p := t.place.Rule.Policy
	if p.CountsRunning {
		t.result.FreeWhen = whenRequestEnds
		return
	}
	wait := used.check.Result.RetryAfter
	if p.Bans() {
		again := t.useUp(t.base, fewRequests)
		if again.passed < 0 {
			return
		}
		wait = t.playBan(&again.check.Result)
	}
	for range 3 {
		if wait == limiter.Never || wait < 0 {
			t.result.FreeAfter, t.result.FreeWhen = 0, whenNever
			return
		}
		t.now = t.now.Add(wait)
		o := t.send(t.base, t.counted)
		if !o.isRefused() {
			break
		}
		wait = o.check.Result.RetryAfter
	}
	if t.result.FreeAfter == 0 {
		t.result.FreeAfter = display.DurationSeconds(t.now.Sub(t.refusedAt))
	}
}

// playBan plays requests behind one that was refused, until a ban begins, and returns how long the client has to wait then.
func (t *trial) playBan(refused *limiter.Result) time.Duration {
	t.result.FreeAfter = display.DurationSeconds(refused.RetryAfter)
	for n := int64(1); n <= mostRequests && t.ctx.Err() == nil; n++ {
		if refused.Banned {
			t.result.BannedFor, t.result.BannedAt = display.DurationSeconds(refused.BanLeft), n
			break
		}
		o := t.send(t.base, t.counted)
		if o.check == nil || !o.isRefused() {
			break
		}
		refused = &o.check.Result
	}
	return refused.RetryAfter
}

// playAtOnce plays ten requests at one instant, before a response.
func (t *trial) playAtOnce() {
	t.begin()
	slow := t.counted
	slow.time = cmp.Or(slow.time, ranFor)
	for range 10 {
		if o := t.send(t.base, slow); o.check != nil && !o.isRefused() {
			t.result.AtOnce++
		}
	}
}

// playIgnored plays responses that count_if does not count, of which none may use up a quota.
func (t *trial) playIgnored() {
	if t.result.Ignores == 0 {
		return
	}
	kept := t.counted
	t.counted = answered{status: t.result.Ignores}
	used := t.useUp(t.base, fewRequests)
	t.counted = kept
	if used.passed >= 0 && used.passed < t.result.RefusedAfter {
		t.note("responses of " + strconv.Itoa(t.result.Ignores) + " use the quota up too")
	}
}
