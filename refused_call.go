package redisratelimit

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// grpcType returns the content type of a refusal in gRPC's form; empty where a request gets another.
func (h *Handler) grpcType(r *http.Request) string {
	if !*h.GRPC {
		return ""
	}
	return quotaheader.GRPCType(r.Header)
}

// refuse ends a request that this handler does not decide. Errors of others, such as a matcher's, go to
// the error routes, also for gRPC: Caddy's log has them from there.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) error {
	coded := caddyhttp.HandlerError{}
	if !rule.IsRefusal(err) || !errors.As(err, &coded) {
		return fail(w, r, err)
	}
	contentType := h.grpcType(r)
	if contentType == "" {
		return fail(w, r, err)
	}
	if c := h.logger.Check(zap.DebugLevel, "call refused"); c != nil {
		c.Write(zap.Int("status", coded.StatusCode), zap.Error(coded.Err))
	}
	refuseCall(w, r, coded.StatusCode, contentType, quotaheader.CallRefusedBy(coded.StatusCode))
	return nil
}

// refuseCall answers in gRPC's form, in place of a status of HTTP.
func refuseCall(w http.ResponseWriter, r *http.Request, status int, contentType string, refusal quotaheader.RefusedCall) {
	if d, ok := caddyhttp.GetVar(r.Context(), decisionVar).(*decision); ok {
		d.callStatus = uint16(status)
	}
	refusal.Write(w, contentType)
}

// deniedCall is the refusal of a denied call, by its reason.
func (d *decision) deniedCall(denier *limiter.Check, wait time.Duration) quotaheader.RefusedCall {
	switch d.reason() {
	case rule.ReasonBan:
		return quotaheader.BannedCall(denier, wait)
	case rule.ReasonMaxConcurrent:
		return quotaheader.CrowdedCall(denier, wait)
	}
	return quotaheader.DeniedCall(denier, wait)
}

// judgedStatus is the status by which handlers further out judge a response: that of the refusal where
// gRPC's form shows 200.
func (d *decision) judgedStatus(status int, header http.Header) int {
	if d.callStatus != 0 && status == http.StatusOK && len(header[quotaheader.GRPCStatus]) > 0 {
		return int(d.callStatus)
	}
	return status
}
