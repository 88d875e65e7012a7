package gate

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// TestDecision_reason follows a request that is denied, and then passes a limit of the error routes.
func TestDecision_reason(t *testing.T) {
	t.Parallel()
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 1, Window: time.Hour}))(t)
	passes := []limiter.Check{{Policy: policy}}
	denies := []limiter.Check{{Policy: policy, Result: limiter.Result{RetryAfter: time.Second}}}
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), caddyhttp.ExtraLogFieldsCtxKey, new(caddyhttp.ExtraLogFields)), http.MethodGet, "/", nil)
	d := &sharedDecision{}
	add := func(checks []limiter.Check) {
		made := Decision{Checks: checks}
		made.Conclude(limiter.SourceMemory, nil)
		d.note(&made, 0)
	}
	for _, step := range []struct {
		name   string
		decide func()
		want   string
	}{
		{"allowed", func() { add(passes) }, ""},
		{"denied", func() { add(denies) }, "limit"},
		{"banned", func() { d.ofRefusal().reason = limiter.ReasonBan }, "ban"},
		{"allowed after the denial", func() { add(passes) }, ""},
		{"undecided after the denial", func() { d.note(&Decision{Outcome: limiter.OutcomeFailedClosed, Err: limiter.ErrUndecided}, 0) }, ""},
	} {
		step.decide()
		d.log(new(ownServer).logFields(r))
		if got, found := d.placeholder(placeholderPrefix + "reason"); got != step.want || !found {
			t.Errorf("%s: {%sreason} is %v, want %q", step.name, placeholderPrefix, got, step.want)
		}
	}
}
