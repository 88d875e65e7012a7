package limiter

import (
	"testing"
	"time"
)

func TestBreaker_that_is_retired_ends_its_outage_once_and_begins_none(t *testing.T) {
	refused := &UndecidedError{Kind: "refused", Err: errTimeout}
	for name, late := range map[string]func(b *breaker){
		"a failed probe":            func(b *breaker) { b.failure(true, errTimeout) },
		"a probe that succeeds":     func(b *breaker) { b.success(true, time.Unix(1_000, 0)) },
		"a probe whose client left": func(b *breaker) { b.neither(true) },
		"a failure of a request":    func(b *breaker) { b.failure(false, refused) },
		"nothing":                   func(*breaker) {},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_000, 0)
			opened, closed := 0, 0
			b := &breaker{now: func() time.Time { return now }, onOpen: func(error) { opened++ }, onClose: func() { closed++ }}
			b.failure(false, refused)
			now = now.Add(probeInterval)
			if _, probe := b.allow(); !probe {
				t.Fatal("no probe")
			}
			b.retire()
			late(b)
			b.retire()
			if opened != 1 || closed != 1 || b.open() || b.closed() {
				t.Errorf("told of %d openings and %d closings, open %v, closed %v", opened, closed, b.open(), b.closed())
			}
			if allowed, probe := b.allow(); !allowed || probe {
				t.Errorf("a request on its way: allowed %v, probe %v", allowed, probe)
			}
		})
	}
}
