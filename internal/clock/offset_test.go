package clock

import (
	"testing"
	"time"
	"unsafe"
)

func TestOffset_add(t *testing.T) {
	const ms = time.Millisecond
	at := func(d time.Duration) Moment { return Moment(0).Add(d) }
	good := sample{at(0), 5 * time.Second, ms}
	for _, test := range []struct {
		name    string
		samples []sample
		want    time.Duration
	}{
		{"the first", []sample{good}, 5 * time.Second},
		{"a shorter round trip", []sample{{at(0), 5*time.Second + 3*ms, 10 * ms}, {at(ms), 5 * time.Second, ms}}, 5 * time.Second},
		{"a shorter round trip that began before", []sample{{at(ms), 5*time.Second + 3*ms, 10 * ms}, good}, 5 * time.Second},
		{"a longer round trip", []sample{good, {at(ms), 5*time.Second + 3*ms, 10 * ms}}, 5 * time.Second},
		{"a longer one, after a while", []sample{good, {at(time.Second + ms), 5*time.Second + ms/2, 3 * ms / 2}}, 5*time.Second + ms/2},
		{"a much longer one, after a while", []sample{good, {at(time.Second), 5*time.Second + 3*ms, 10 * ms}}, 5 * time.Second},
		{"a clock set ahead", []sample{good, {at(ms), 6 * time.Second, ms}}, 6 * time.Second},
		{"a clock set back, a long round trip", []sample{good, {at(ms), 4 * time.Second, 500 * ms}}, 4 * time.Second},
		{"an answer from before the clock was set", []sample{{at(ms), 6 * time.Second, ms}, good}, 6 * time.Second},
		{"a shorter one from before the clock was set", []sample{{at(ms), 6 * time.Second, 10 * ms}, good}, 6 * time.Second},
		{"a step within the error, after a while", []sample{good, {at(ms), 5*time.Second + 2*ms, ms}, {at(time.Second), 5*time.Second + 2*ms, ms}}, 5*time.Second + 2*ms},
	} {
		var o Offset
		for i := range test.samples {
			o.add(&test.samples[i])
		}
		if got, known := o.Ahead(); got != test.want || !known {
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

func TestOffset_learn(t *testing.T) {
	const hour, trip = time.Hour, 20 * time.Millisecond
	sent := time.Now()
	if ahead := set(sent, hour); ahead.Sub(sent) != 0 || ahead.Round(0).Sub(sent.Round(0)) != hour {
		t.Fatalf("%v is not %v with the wall clock set ahead", ahead, sent)
	}
	redisTime := sent.Add(hour + trip/2).UnixMicro()
	var o Offset
	if _, known := o.Ahead(); known {
		t.Error("known before the first sample")
	}
	want := func(when string, want time.Duration) {
		t.Helper()
		if got, known := o.Ahead(); !known || (got-want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, known %v; want %v", when, got, known, want)
		}
	}
	o.Learn(sent, sent.Add(trip), redisTime)
	want("Redis is ahead", hour)
	sent = sent.Add(trip)
	o.Learn(sent, set(sent.Add(trip), 3*hour), redisTime+trip.Microseconds())
	want("this machine's clock is set during a round trip", hour)
	o.Learn(set(sent, 3*hour), set(sent.Add(trip), 3*hour), redisTime+trip.Microseconds())
	want("after it was set", -2*hour)
}
