package limiter

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestClockOffset_add(t *testing.T) {
	const ms = time.Millisecond
	at := func(d time.Duration) moment { return moment(0).add(d) }
	good := clockSample{at(0), 5 * time.Second, ms}
	for _, test := range []struct {
		name    string
		samples []clockSample
		want    time.Duration
	}{
		{"the first", []clockSample{good}, 5 * time.Second},
		{"a shorter round trip", []clockSample{{at(0), 5*time.Second + 3*ms, 10 * ms}, {at(ms), 5 * time.Second, ms}}, 5 * time.Second},
		{"a shorter round trip that began before", []clockSample{{at(ms), 5*time.Second + 3*ms, 10 * ms}, good}, 5 * time.Second},
		{"a longer round trip", []clockSample{good, {at(ms), 5*time.Second + 3*ms, 10 * ms}}, 5 * time.Second},
		{"a longer one, after a while", []clockSample{good, {at(time.Second + ms), 5*time.Second + ms/2, 3 * ms / 2}}, 5*time.Second + ms/2},
		{"a much longer one, after a while", []clockSample{good, {at(time.Second), 5*time.Second + 3*ms, 10 * ms}}, 5 * time.Second},
		{"a clock set ahead", []clockSample{good, {at(ms), 6 * time.Second, ms}}, 6 * time.Second},
		{"a clock set back, a long round trip", []clockSample{good, {at(ms), 4 * time.Second, 500 * ms}}, 4 * time.Second},
		{"an answer from before the clock was set", []clockSample{{at(ms), 6 * time.Second, ms}, good}, 6 * time.Second},
		{"a shorter one from before the clock was set", []clockSample{{at(ms), 6 * time.Second, 10 * ms}, good}, 6 * time.Second},
		{"a step within the error, after a while", []clockSample{good, {at(ms), 5*time.Second + 2*ms, ms}, {at(time.Second), 5*time.Second + 2*ms, ms}}, 5*time.Second + 2*ms},
	} {
		var o clockOffset
		for i := range test.samples {
			o.add(&test.samples[i])
		}
		if got, known := o.offset(); got != test.want || !known {
			t.Errorf("%s: %v, known %v; want %v", test.name, got, known, test.want)
		}
	}
}

// set returns an instant as [time.Now] gives it after the wall clock was set ahead: its monotonic
// reading goes on. The wall clock's seconds begin at bit 30 of the first field.
func set(now time.Time, ahead time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&now)) += uint64(ahead/time.Second) << 30
	return now
}

func TestClockOffset_learn(t *testing.T) {
	const hour, trip = time.Hour, 20 * time.Millisecond
	sent := time.Now()
	if ahead := set(sent, hour); ahead.Sub(sent) != 0 || ahead.Round(0).Sub(sent.Round(0)) != hour {
		t.Fatalf("%v is not %v with the wall clock set ahead", ahead, sent)
	}
	redisTime := sent.Add(hour + trip/2).UnixMicro()
	var o clockOffset
	if _, known := o.offset(); known {
		t.Error("known before the first sample")
	}
	want := func(when string, want time.Duration) {
		t.Helper()
		if got, known := o.offset(); !known || (got-want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, known %v; want %v", when, got, known, want)
		}
	}
	o.learn(sent, sent.Add(trip), redisTime)
	want("Redis is ahead", hour)
	sent = sent.Add(trip)
	o.learn(sent, set(sent.Add(trip), 3*hour), redisTime+trip.Microseconds())
	want("this machine's clock is set during a round trip", hour)
	o.learn(set(sent, 3*hour), set(sent.Add(trip), 3*hour), redisTime+trip.Microseconds())
	want("after it was set", -2*hour)
}

// offsetOf returns the offset of a store after a request.
func offsetOf(t *testing.T, s Store, r *Redis) time.Duration {
	t.Helper()
	decide(t, s, Check{Policy: dayPolicy(t, "offset", GCRA, 1_000), Key: EncodeKey("k")})
	offset, known := r.offset(0)
	if !known {
		t.Error("no offset after a decision")
	}
	return offset
}

func TestRedis_offset(t *testing.T) {
	for _, ahead := range []time.Duration{0, -3 * time.Hour} {
		r := openRedis(t, redistest.StartAt(t, ahead), time.Second)
		redistest.WaitFor(t, "the offset is known", func() error {
			if got := offsetOf(t, r, r); (got - ahead).Abs() > 50*time.Millisecond {
				return fmt.Errorf("an offset of %v; want %v", got, ahead)
			}
			return nil
		})
	}
}

// TestRedis_offset_set sets Redis's clock between requests.
func TestRedis_offset_set(t *testing.T) {
	s := redisStore(t, redistest.Shared(t))
	for _, ahead := range []time.Duration{0, time.Hour, -2 * time.Hour, 10 * time.Second} {
		s.set(time.Now().Add(ahead).UnixMicro())
		if got := offsetOf(t, s, s.shared); (got - ahead).Abs() > 2*time.Second {
			t.Errorf("an offset of %v right after the clock was set; want %v", got, ahead)
		}
	}
}
