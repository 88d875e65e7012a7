package assert

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// stepsShown is how many steps a failure shows: the one that failed, and those before it.
const stepsShown = 4

// Play is a random test with one seed. It keeps the last steps, and tells them if the test fails, with the command that
// plays the seed again. Nil keeps nothing.
type Play struct {
	t      testing.TB
	seed   uint64
	failed bool // before the play, or told

	steps int
	last  []step
}

// step is what a test has done, as text once it is told.
type step struct {
	format string
	args   []any
}

// Seeds are those that a random test plays: few, or many where SOAK=long is set. SEED=7 has it play the seed 7 alone.
func Seeds(few, many uint64) iter.Seq[uint64] {
	if seed, alone := SeedAlone(); alone {
		return slices.Values([]uint64{seed})
	}
	return func(yield func(uint64) bool) {
		for seed := range Rounds(few, many) {
			if !yield(seed) {
				return
			}
		}
	}
}

// AllSeeds reports whether a test plays all its seeds: one that SEED names shows too little by itself.
func AllSeeds() bool {
	_, alone := SeedAlone()
	return !alone
}

// SeedAlone returns the seed that SEED names, if it does.
func SeedAlone() (seed uint64, alone bool) {
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	return seed, err == nil
}

// Plays are the plays of the seeds of a test, which run one after the other.
func Plays(t testing.TB, few, many uint64) iter.Seq2[uint64, *Play] {
	t.Helper()
	return func(yield func(uint64, *Play) bool) {
		t.Helper()
		for seed := range Seeds(few, many) {
			if !playOne(t, seed, yield) {
				return
			}
		}
	}
}

// playOne tells of a play at its end, also at one by Fatal.
func playOne(t testing.TB, seed uint64, yield func(uint64, *Play) bool) bool {
	t.Helper()
	p := &Play{t: t, seed: seed, failed: t.Failed()}
	defer p.tell()
	return yield(seed, p)
}

// NewPlay is the play of a seed until the end of a test, such as one that [testing.T.Run] has begun for the seed.
func NewPlay(t testing.TB, seed uint64) *Play {
	p := &Play{t: t, seed: seed, failed: t.Failed()}
	t.Cleanup(p.tell)
	return p
}

// Begin begins the play of another seed in the same test.
func (p *Play) Begin(seed uint64) {
	p.t.Helper()
	p.tell()
	p.seed, p.steps, p.last = seed, 0, p.last[:0]
}

// Step notes what the test does next, in values that stay as they are. The first failure since then is one of this step.
func (p *Play) Step(format string, args ...any) {
	if p == nil {
		return
	}
	p.t.Helper()
	if p.tell(); p.failed {
		return
	}
	if len(p.last) == stepsShown {
		p.last = append(p.last[:0], p.last[1:]...)
	}
	p.last = append(p.last, step{format, args})
	p.steps++
}

// tell says once what led to a failure.
func (p *Play) tell() {
	p.t.Helper()
	if p.failed || !p.t.Failed() {
		return
	}
	p.failed = true
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d, the last of %d steps:\n", p.seed, p.steps)
	for i, s := range p.last {
		fmt.Fprintf(&text, "%6d  %s\n", p.steps-len(p.last)+i+1, fmt.Sprintf(s.format, s.args...))
	}
	p.t.Logf("%splay it again: %s", text.String(), p.command())
}

// command plays the seed alone.
func (p *Play) command() string {
	names := strings.Split(p.t.Name(), "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	return fmt.Sprintf("SEED=%d go test %s -count=1 -run '%s'", p.seed, testedFolder(), strings.Join(names, "/"))
}

// testedFolder is that of the package that is tested, from the module's: go test runs a test there.
func testedFolder() string {
	folder, err := os.Getwd()
	for root := folder; err == nil && filepath.Dir(root) != root; root = filepath.Dir(root) {
		if _, absent := os.Stat(filepath.Join(root, "go.mod")); absent == nil {
			inside, _ := filepath.Rel(root, folder) // both are absolute
			return "./" + filepath.ToSlash(inside)
		}
	}
	return "."
}
