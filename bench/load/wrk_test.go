package load

import (
	"testing"
	"time"
)

func TestParseWrk(t *testing.T) {
	const output = "Running 1s test\nRequests/sec: 20\n" +
		`{"requests":40,"duration":2000000,"p99":9000,"refused":10,"failed":1}` + "\n"
	got, err := parseWrk([]byte(output))
	want := Result{Rate: 20, P99: 9 * time.Millisecond, Refused: 0.25, Failed: 1}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := parseWrk([]byte("connection refused")); err == nil {
		t.Error("no error for an output without counts")
	}
}
