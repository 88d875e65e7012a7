package storepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// outageReporter counts and logs what Redis does not do. These are logged:
//
//	an outage, overrides that cannot be read             when it begins and when it ends
//	lost refunds and charges                             once in an outage, otherwise once a minute
//	what fails for one request, refused connections      once a minute
//
// No line has a client's key. The store outlives the loggers of configurations, so that each line goes to the current
// logger.
type outageReporter struct {
	alone   clock.Gate
	refused clock.Gate
	losses  lossLines
	foreign clock.Gate
	secret  clock.Gate
	metrics Metrics

	warnings *adminapi.WarningLog
	newest   func() *Stores // those of the running configuration; nil where none runs

	unread, loginFailing atomic.Bool // of overrides; of open connections

	outageSince, unreadSince atomic.Pointer[time.Time] // nil: it has none; the overrides can be read
	answersSince             atomic.Pointer[time.Time] // of the first answer, or after the last failure; nil: of none
}

// failingSince returns when Redis was noticed not to decide; zero: it decides, as far as is known. Where no request
// asked Redis, the polls of overrides have noticed.
func (s *outageReporter) failingSince() time.Time {
	if since := cmp.Or(s.outageSince.Load(), s.unreadSince.Load()); since != nil {
		return *since
	}
	return time.Time{}
}

// decidingSince returns from when on Redis has decided; zero: it does not, as far as is known.
func (s *outageReporter) decidingSince() time.Time {
	if since := s.answersSince.Load(); since != nil && s.failingSince().IsZero() {
		return *since
	}
	return time.Time{}
}

// loggerName is that of the app.
const loggerName = "redis_ratelimit"

func (s *outageReporter) logger() *zap.Logger { return s.warnings.Watch(caddy.Log().Named(loggerName)) }

// watch returns the setup of the store that is reported on.
func (s *outageReporter) watch(o Options) redis.Setup {
	return redis.Setup{
		KeyFormat: o.Naming, OnBatch: s.metrics.Batch, OnLost: s.refundLost, OnRefusedLogin: s.loginRefused,
		OnOutage: func(err error) {
			s.losses.begin(time.Now())
			s.outageSince.Store(new(time.Now()))
			s.metrics.Outage(limiter.Kind(err))
			s.logger().Warn("redis cannot decide; handlers do what their fail_mode says", causeOf(err)...)
		},
		OnRecovery: func(after time.Duration) {
			s.losses.end()
			s.outageSince.Store(nil)
			s.metrics.Recovery(after)
			s.answersSince.Store(new(time.Now()))
			s.logger().Info("redis decides again", zap.Duration("after", after))
		},
	}
}

// close ends the outage of a store that no configuration uses any more, unless the store of the running one fails too.
func (s *outageReporter) close() {
	since := s.outageSince.Swap(nil)
	if since == nil {
		return
	}
	if newest := s.newest(); newest == nil || newest.Redis == nil || newest.Redis.FailingSince().IsZero() {
		s.metrics.Recovery(time.Since(*since))
	}
}

// watchOverrides returns what the overrides of a store report, whose polls also find out that Redis answers.
func (s *outageReporter) watchOverrides(o Options) overrides.Hooks {
	return overrides.Hooks{
		OnFirstAnswer: func(version string) { s.answered(o, version) },
		OnDataLost: func() {
			s.metrics.DataLost()
			s.logger().Warn("redis has lost its data: it was emptied, evicts keys, or another server answers at its address; " +
				"clients have whole quotas, and bans are gone")
		},
		OnUnread: func(err error) {
			if err == nil {
				if s.unreadSince.Swap(nil) != nil {
					s.answersSince.Store(new(time.Now()))
				}
			} else {
				s.unreadSince.CompareAndSwap(nil, new(time.Now()))
			}
			s.turned(&s.unread, err,
				"overrides cannot be read from redis; this node goes on with those that it has", "overrides are read from redis again")
		},
		OnUnreadable: func(err error) {
			if s.foreign.Pass(time.Now(), time.Minute) {
				s.logger().Warn("an override in redis is left out; another version may have written it", zap.Error(err))
			}
		},
		OnNodeOnlyEnd: func(ended int) {
			s.logger().Info("redis is back; overrides that applied on this node alone have ended", zap.Int("overrides", ended))
		},
	}
}

// answered says once where the limits live. Scripts of Redis before 7.0 do not know its version.
func (s *outageReporter) answered(o Options, version string) {
	s.answersSince.CompareAndSwap(nil, new(time.Now()))
	fields := []zap.Field{zap.String("mode", string(cmp.Or(o.Client.Mode, dial.Standalone))), zap.Strings("addresses", o.Client.Addresses)}
	if version != "" {
		fields = append(fields, zap.String("version", version))
	}
	if o.Naming.Prefix == limiter.DefaultKeyPrefix {
		fields = append(fields, zap.String("key_prefix", o.Naming.Prefix), zap.String("advice", limiter.SharedAdvice))
	}
	s.logger().Info("redis answers: the limits live there and are shared by all nodes that use it", fields...)
}

// secretUnread takes the reason why there is no secret of challenges.
func (s *outageReporter) secretUnread(err error) {
	if s.secret.Pass(time.Now(), time.Minute) {
		s.logger().Warn("the secret of challenges cannot be read from redis; denied browsers get no page that waits", causeOf(err)...)
	}
}

// undecided takes the error of a request that Redis did not decide.
func (s *outageReporter) undecided(err error) {
	s.metrics.StoreError(limiter.Kind(err))
	if limiter.FailedAlone(err) && s.alone.Pass(time.Now(), time.Minute) {
		s.logger().Warn("redis cannot decide for some clients alone; handlers do what their fail_mode says for these", causeOf(err)...)
	}
}

// loginRefused takes the error of a new connection that was not let in, or that no sentinel gave an address
// for, while older ones work. No request fails for it.
func (s *outageReporter) loginRefused(err error) {
	s.metrics.StoreError(limiter.Kind(err))
	if !s.refused.Pass(time.Now(), time.Minute) {
		return
	}
	text := "new connections to redis cannot log in; older ones decide the requests. " +
		"Give both sides the same passwords and certificates before these end"
	if limiter.Kind(err) == "refused" {
		text = "no sentinel gives an address for new connections to redis; older ones decide the requests. " +
			"Start the sentinels before these end"
	}
	s.logger().Warn(text, causeOf(err)...)
}

// loggedIn takes what came of logging open connections in again; nil: all of them have.
func (s *outageReporter) loggedIn(err error) {
	s.turned(&s.loginFailing, err,
		"credentials cannot be renewed; open connections to redis go on with the last login until redis ends them",
		"credentials are renewed again")
}

// turned logs that something fails when it begins to, and when it ends.
func (s *outageReporter) turned(failing *atomic.Bool, err error, begins, ends string) {
	switch failed := failing.Swap(err != nil); {
	case err != nil && !failed:
		s.logger().Warn(begins, causeOf(err)...)
	case err == nil && failed:
		s.logger().Info(ends)
	}
}

// refundLost takes the error of a refund or a charge that Redis did not do. It is counted once it is logged.
func (s *outageReporter) refundLost(err error) {
	defer s.metrics.RefundError(limiter.Kind(err))
	if s.losses.due(time.Now()) {
		s.logger().Warn("redis did not do refunds, charges or repayments of an outage; refund_errors_total counts them", causeOf(err)...)
	}
}

// causeOf says why, and what to do if the server has refused a connection.
func causeOf(err error) []zap.Field {
	fields := []zap.Field{zap.String("kind", limiter.Kind(err)), zap.Error(err)}
	var refused *dial.RefusedError
	if errors.As(err, &refused) {
		fields = append(fields, zap.String("advice", refused.Advice))
	}
	return fields
}

func init() {
	goredis.SetLogger(redisLog{})
}

// redisLog passes what go-redis would write to stderr to Caddy's log, as detail: outages are
// logged by this module itself.
type redisLog struct{}

// Printf implements go-redis's logger.
func (redisLog) Printf(_ context.Context, format string, values ...any) {
	if c := caddy.Log().Named(loggerName+".client").Check(zap.DebugLevel, "go-redis"); c != nil {
		c.Write(zap.String("says", fmt.Sprintf(format, values...)))
	}
}

// lossLines decides which refunds and charges that Redis did not do get a line in the log: the first of an outage,
// else one a minute. Requests in flight fail at about the time when an outage is noticed, and some of them before, so
// that the line of the minute before an outage is also the outage's. The zero value is ready.
type lossLines struct {
	mu       sync.Mutex
	inOutage bool
	told     bool      // the outage has its line
	last     time.Time // of a line; zero before the first
}

// due reports whether the loss of an instant gets a line, and counts it as written if so.
func (l *lossLines) due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inOutage && l.told || !l.inOutage && l.recent(now) {
		return false
	}
	l.told, l.last = true, now
	return true
}

// begin begins an outage.
func (l *lossLines) begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inOutage, l.told = true, l.told && l.recent(now)
}

// end ends the outage.
func (l *lossLines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inOutage, l.told = false, false
}

// recent reports whether the last line is less than a minute old.
func (l *lossLines) recent(now time.Time) bool {
	return !l.last.IsZero() && now.Sub(l.last) < time.Minute
}
