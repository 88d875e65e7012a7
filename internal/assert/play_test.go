package assert

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// recording is a test that notes what it is told.
type recording struct {
	testing.TB
	name    string
	failed  bool
	log     strings.Builder
	cleanup []func()
}

func (r *recording) Helper()                      {}
func (r *recording) Name() string                 { return r.name }
func (r *recording) Failed() bool                 { return r.failed }
func (r *recording) Logf(format string, a ...any) { fmt.Fprintf(&r.log, format+"\n", a...) }
func (r *recording) Cleanup(f func())             { r.cleanup = append(r.cleanup, f) }

func TestPlays_tell_the_steps_of_the_seed_that_failed(t *testing.T) {
	t.Setenv("SOAK", "")
	r := &recording{name: "TestX/a(b)"}
	for seed, p := range Plays(r, 3, 9) {
		for i := range 10 {
			p.Step("%d of seed %d", i, seed)
			r.failed = r.failed || seed == 1 && i == 6
		}
	}
	const want = `seed 1, the last of 7 steps:
     4  3 of seed 1
     5  4 of seed 1
     6  5 of seed 1
     7  6 of seed 1
play it again: SEED=1 go test ./internal/assert -count=1 -run '^TestX$/^a\(b\)$'
`
	Equal(t, r.log.String(), want, "the log")
}

// TestPlays_tell_of_Fatal has a play end as [testing.T.Fatal] ends it.
func TestPlays_tell_of_Fatal(t *testing.T) {
	r, done := &recording{name: "TestX"}, make(chan struct{})
	go func() {
		defer close(done)
		for _, p := range Plays(r, 3, 3) {
			p.Step("only")
			r.failed = true
			runtime.Goexit()
		}
	}()
	<-done
	ErrorIf(t, strings.Count(r.log.String(), "seed 0, the last of 1 steps:\n     1  only\n") != 1, "got %q", r.log.String())
}

func TestNewPlay_tells_at_the_end(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := &recording{name: "TestX/seed=7", failed: false}
		p := NewPlay(r, 7)
		p.Step("one")
		r.failed = fails
		for _, f := range r.cleanup {
			f()
		}
		ErrorIf(t, strings.Contains(r.log.String(), "SEED=7 ") != fails, "failed %t: got %q", fails, r.log.String())
	}
	(*Play)(nil).Step("which is not kept")
}

func TestSeeds(t *testing.T) {
	for _, test := range []struct{ seed, soak, want string }{
		{"", "", "0 1 "}, {"", "long", "0 1 2 3 "}, {"7", "", "7 "}, {"7", "long", "7 "}, {"x", "", "0 1 "},
	} {
		t.Setenv("SEED", test.seed)
		t.Setenv("SOAK", test.soak)
		got := ""
		for seed := range Seeds(2, 4) {
			got += fmt.Sprint(seed, " ")
		}
		Equal(t, got, test.want, "the seeds of SEED=%s SOAK=%s", test.seed, test.soak)
		Equal(t, AllSeeds(), test.seed == "" || test.seed == "x", "whether these are all")
	}
}
