package redisratelimit

import (
	"errors"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // nodes of one build have the same zones where machines have no table

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// windowBounds says what a window may be.
const windowBounds = "a duration above zero and below 142 years such as 500ms, 1m, 24h or 7d, or a calendar period: day, week, month or year"

// isCalendar reports whether a word names a kind of calendar period.
func isCalendar(word string) bool { return slices.Contains(limiter.Calendars(), word) }

// location returns the time zone of calendar periods, nil where there are none.
func (p *Policy) location() (*time.Location, error) {
	if p.Calendar == "" || p.TimeZone == "" {
		return nil, nil //nolint:nilnil // the limiter's default
	}
	location, err := time.LoadLocation(p.TimeZone)
	if err != nil || location == time.Local {
		return nil, fmt.Errorf("time zone %s: unknown; use a name such as Europe/Berlin or UTC, which is the same on every node", humanize.Shown(p.TimeZone))
	}
	return location, nil
}

// hasAlgorithm reports whether the algorithm is one. The error of another one comes first: whether a policy has a window
// depends on it.
func (p *Policy) hasAlgorithm() bool {
	return p.Algorithm == "" || slices.Contains(limiter.Algorithms(), p.Algorithm)
}

// checkWindow refuses a policy without a window, with two, or with a time zone that says nothing.
func (p *Policy) checkWindow() error {
	switch {
	case p.Window == 0 && p.Calendar == "" && !p.countsRunning():
		return errors.New("window: missing or zero; use a duration from 1ms such as 1m, or a calendar period such as month")
	case p.Window != 0 && p.Calendar != "":
		return errors.New("window, calendar: a policy has one of them; leave one out")
	case p.TimeZone != "" && p.Calendar == "":
		return fmt.Errorf("time_zone %s: only a calendar has one; set calendar instead of window, or leave time_zone out", humanize.Shown(p.TimeZone))
	}
	_, err := p.location()
	return err
}

// parseWindow reads a duration, or a calendar period and its time zone.
func (p *handlerParser) parseWindow(policy *Policy) error {
	args := p.RemainingArgs()
	if len(args) == 0 || len(args) > 2 || (len(args) == 2 && !isCalendar(args[0])) || p.NextBlock(p.Nesting()) {
		return p.Errf("window takes one value, %s; behind a calendar period there may be its time zone, such as window month Europe/Berlin", windowBounds)
	}
	if err := p.setWindow(policy, args[0]); err != nil {
		return err
	}
	if len(args) == 1 {
		return nil
	}
	if policy.TimeZone = args[1]; policy.TimeZone == "" {
		return p.Err("window: the time zone is empty; use a name such as Europe/Berlin, or leave it out for UTC")
	}
	if _, err := policy.location(); err != nil {
		return p.WrapErr(err)
	}
	return nil
}

// setWindow sets a duration or a calendar period. A policy knows its own bounds.
func (p *handlerParser) setWindow(policy *Policy, value string) (err error) {
	if isCalendar(value) {
		policy.Calendar = value
		return nil
	}
	policy.Window, err = caddyfileopt.Duration(p.Dispenser, "window", value, 1, windowBounds)
	return err
}
