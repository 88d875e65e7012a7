package serve

import (
	"os/exec"
	"testing"
)

// TestCounted counts a Redis that answers between two counts and after them: an idle one runs less than one that answers.
func TestCounted(t *testing.T) {
	if _, err := exec.LookPath("vgdb"); err != nil {
		t.Skip("valgrind is not installed; make instructions installs it")
	}
	r, err := CountedRedis(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	if err := r.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	count := func(connections int) float64 {
		if err := r.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range connections {
			if err := r.waitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		n, err := r.Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	count(20) // what runs first is more
	few, many := count(50), count(500)
	t.Log(few, many)
	if few <= 0 || many < 3*few {
		t.Errorf("%.0f instructions of 50 connections, %.0f of 500", few, many)
	}
}

func TestTotal(t *testing.T) {
	for _, test := range []struct {
		name, profile string
		want          float64
		fails         bool
	}{
		{name: "thread", profile: "events: Ir\nfn=(1) runtime.mcall\n+3 5\nsummary: 41\ntotals: 42\n", want: 42},
		{name: "monitor of Go", profile: "events: Ir\nfn=(7) runtime.sysmon\n+3 5\ntotals: 42\n", want: 0},
		{
			name: "cron of Redis", want: 12,
			profile: "fn=(2) main\n+1 5\ncfn=(9) serverCron\ncalls=3 0\n+3 20\ncfn=(4) dictFind\ncalls=1 0\n+3 7\n" +
				"fn=(9)\n0 20\nfn=(3) loop\ncfn=(9)\ncalls=1 0\n* 10\ntotals: 42\n",
		},
		{name: "cut off", profile: "events: Ir\nfn=(1) runtime.mcall\n", fails: true},
		{name: "not a number", profile: "totals: many\n", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := total([]byte(test.profile))
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("%v, %v; want %v", got, err, test.want)
			}
		})
	}
}
