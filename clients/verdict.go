package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Verdicts, the best first.
const (
	waits         = "waits"
	failsLoudly   = "fails loudly"
	sleeps        = "sleeps silently"
	returnsEarly  = "returns early"
	losesData     = "loses data silently"
	takesRefusals = "takes a refusal for success"
)

var verdicts = []string{waits, failsLoudly, sleeps, returnsEarly, losesData, takesRefusals}

// refusalText is what refusals say, in all of their forms.
var refusalText = regexp.MustCompile(`(?i)too many requests|rate.?limit|slow.?down|resource.?exhausted|quota`)

// reasonText is what tells a user of a client that a limit was the reason.
var reasonText = regexp.MustCompile(refusalText.String() + `|(^|\D)429(\D|$)`)

// sizes are numbers of bytes, which may be 429.
var sizes = regexp.MustCompile(`\d+ ?[kM]?B\b`)

// showsReason reports whether the output of a client says that a limit was the reason.
func showsReason(output []byte) bool { return reasonText.Match(sizes.ReplaceAll(output, nil)) }

// request is one that the site has answered.
type request struct {
	Begin    float64 `json:"ts"` // seconds, at the end in the log
	Duration float64
	Status   int
	Decision string `json:"ratelimit_decision"`
	Request  struct {
		Method, URI string
	}
	Header http.Header `json:"resp_headers"`
}

// readLog returns the requests of an access log in the order of their beginnings.
func readLog(log []byte) (requests []request, err error) {
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("reading the access log: %w", err)
		}
		r.Begin -= r.Duration
		requests = append(requests, r)
	}
	slices.SortStableFunc(requests, func(a, b request) int {
		if a.Begin < b.Begin {
			return -1
		}
		return 1
	})
	return requests, lines.Err()
}

func (r request) refused() bool { return r.Decision == "denied" }

// told returns the seconds after which a refused client may come back: the header that is meant for it goes first.
func (r request) told() float64 {
	for _, form := range []struct {
		header string
		unit   float64
	}{{"Grpc-Retry-Pushback-Ms", 1000}, {"X-Amz-Retry-After", 1000}, {"Retry-After", 1}} {
		if n, err := strconv.ParseFloat(r.Header.Get(form.header), 64); err == nil {
			return n / form.unit
		}
	}
	return math.NaN()
}

// form returns the status and the type of a refusal.
func (r request) form() string {
	form := strconv.Itoa(r.Status)
	if kind := r.Header.Get("Content-Type"); kind != "" {
		form += " " + regexp.MustCompile(`;.*`).ReplaceAllString(kind, "")
	}
	if r.Header.Get("X-Amz-Retry-After") != "" {
		form += ", X-Amz-Retry-After"
	}
	return form
}

// visit is what the site saw of a client.
type visit struct {
	sent, refused int
	forms         []string
	back, told    float64 // of the earliest return in proportion to what the client was told; NaN without a return
}

// slack is how much earlier than told a client may come: timers and the log are not exact.
const slack = 50 * time.Millisecond

// early reports whether the client came back before the time that it was told.
func (v visit) early() bool { return v.back < v.told-slack.Seconds() }

// visitOf sums up the requests. A client returns when it sends a request again that was refused.
func visitOf(requests []request) (v visit) {
	v.back, v.told = math.NaN(), math.NaN()
	for i, r := range requests {
		v.sent++
		if !r.refused() {
			continue
		}
		v.refused++
		if form := r.form(); !slices.Contains(v.forms, form) {
			v.forms = append(v.forms, form)
		}
		end := r.Begin + r.Duration
		next := slices.IndexFunc(requests[i+1:], func(later request) bool { return later.Request == r.Request && later.Begin >= end })
		if next < 0 || math.IsNaN(r.told()) {
			continue
		}
		if back := requests[i+1+next].Begin - end; math.IsNaN(v.back) || back/r.told() < v.back/v.told {
			v.back, v.told = back, r.told()
		}
	}
	slices.Sort(v.forms)
	return v
}

// judge returns the verdict on what a client did.
func judge(o outcome, v visit) string {
	switch {
	case o.refusal:
		return takesRefusals
	case !o.whole && o.exit == 0:
		return losesData
	case v.early():
		return returnsEarly
	case o.sleeps:
		return sleeps
	case !o.whole:
		return failsLoudly
	default:
		return waits
	}
}
