package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by SHA-1; nothing is protected by it
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// KernelSet is a set of script fragments, a bit for each in the order of KernelNames.
type KernelSet uint

var fragments = listFragments()

// KernelNames are the fragments of the algorithms, each once.
var KernelNames = fragments.names

// leasing are those that have a fragment of leases.
var leasing = fragments.leasing

// fragmentSets are the fragments of the algorithms, and those with a fragment of leases.
type fragmentSets struct {
	names   []string
	leasing KernelSet
	sets    map[*kernel.Algorithm]KernelSet
}

func listFragments() (f fragmentSets) {
	algorithms := []*kernel.Algorithm{}
	for i := range kernel.Registry {
		algorithms = append(algorithms, &kernel.Registry[i])
	}
	f.sets = map[*kernel.Algorithm]KernelSet{}
	for _, a := range append(algorithms, &kernel.RunningAlgorithm, &kernel.WaitingAlgorithm, &kernel.CalendarAlgorithm) {
		if known := slices.Index(f.names, a.Script); known >= 0 {
			f.sets[a] = 1 << known
			continue
		}
		f.sets[a] = 1 << len(f.names)
		if a.Leases() {
			f.leasing |= 1 << len(f.names)
		}
		f.names = append(f.names, a.Script)
	}
	return f
}

// kernelSets has the set of each algorithm's fragment alone.
var kernelSets = fragments.sets

// banFragment is the fragment of bans, behind all kernels.
const banFragment KernelSet = 1 << 31

// leaseFragment is the fragments of leases, one in front of the kernels and one behind each.
const leaseFragment KernelSet = 1 << 30

// AloneFragment is the script of one take of one check, instead of batch.lua.
const AloneFragment KernelSet = 1 << 29

// TakesFragment is the script of takes, instead of batch.lua, for requests of one check whose weight may pass. Times 1 + n
// it is the script for requests of up to n checks.
const TakesFragment KernelSet = 1 << 24

// takesFragments has all bits of scripts of takes, and that of one take alone.
const takesFragments = 2*AloneFragment - TakesFragment

// mostTakes is the most scripts of takes of a node: it bounds what a Redis that lost its scripts is sent, and keeps. Other
// takes are decided by batch.lua.
const mostTakes = 32

// FragmentsOf returns the fragments that decide by a policy.
func FragmentsOf(p *limiter.Policy) KernelSet {
	set := kernelSets[p.Algorithm]
	if p.Ban != nil {
		set |= banFragment
	}
	return set
}

// Script is a text that Redis identifies by its SHA-1.
type Script struct {
	Text, Sha string

	sent atomic.Int64 // the moment when it was sent last, to a second
}

// ScriptSet builds the script for each set of kernels, once.
type ScriptSet struct {
	Clock  string // a fragment instead of Redis's own clock, for tests
	Always bool   // batch.lua for everything, for tests
	mu     sync.RWMutex
	Built  map[KernelSet]*Script // nil: takes that have no script of their own, or whose script is being made
	takes  int                   // of those, scripts of takes, also such that are being made
}

// Get returns the script of a set of kernels, and builds it the first time.
func (s *ScriptSet) Get(kernels KernelSet) (*Script, error) {
	s.mu.RLock()
	built := s.Built[kernels]
	s.mu.RUnlock()
	if built != nil {
		return built, nil
	}
	built, err := s.build(kernels)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remember(kernels, built), nil
}

// takesOf returns the set of a script of takes by kernels: plain are requests of one check whose weight may pass, that is no
// look; others have up to `most` checks.
func takesOf(kernels KernelSet, plain bool, most int) KernelSet {
	checks := KernelSet(min(most, scripts.MostChecks+1)) //nolint:gosec // not below 0
	if plain && bits.OnesCount(uint(kernels)) == 1 {
		checks = 0
	}
	return kernels | (1+checks)*TakesFragment
}

// Takes returns the script of a set of takes, or of one take alone; nil: none, see [scripts.HasTakes]. A node has at most
// mostTakes.
func (s *ScriptSet) Takes(set KernelSet) *Script {
	s.mu.RLock()
	built, known := s.Built[set]
	s.mu.RUnlock()
	if !known && set&takesFragments != 0 && !s.Always {
		return s.addTakes(set)
	}
	return built
}

// addTakes builds the script of a set of takes that comes for the first time, or remembers that it has none. Building takes
// milliseconds: only who asks first waits for it, and batch.lua decides for all others meanwhile.
func (s *ScriptSet) addTakes(set KernelSet) *Script {
	own, checks := set&^takesFragments, 1
	if set&AloneFragment == 0 {
		checks = int(set&takesFragments/TakesFragment) - 1 //nolint:gosec // three bits
	}
	has := own&(banFragment|leaseFragment) == 0 && scripts.HasTakes(checks, names(own)...)
	s.mu.Lock()
	built, known := s.Built[set]
	if known || !has || s.takes >= mostTakes {
		built = s.remember(set, built)
		s.mu.Unlock()
		return built
	}
	s.takes++
	s.remember(set, nil)
	s.mu.Unlock()
	built, _ = s.build(set) // one that cannot be built stays none
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remember(set, built)
}

// remember keeps a set's script, unless there is one, or that it has none, and returns what there is. The lock must be held.
func (s *ScriptSet) remember(set KernelSet, script *Script) *Script {
	if s.Built == nil {
		s.Built = map[KernelSet]*Script{}
	}
	if s.Built[set] == nil {
		s.Built[set] = script
	}
	return s.Built[set]
}

// names returns the names of the algorithms' fragments in a set.
func names(kernels KernelSet) (names []string) {
	for i, name := range KernelNames {
		if kernels&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// InUse returns the scripts that were sent at a moment or later. Where one of takes was, the script that also changes what was
// taken is another: debts of an outage need it. And who took alone before an outage may take with others after it.
func (s *ScriptSet) InUse(moment clock.Moment) (scripts []*Script) {
	for _, kernels := range s.sentSince(moment) {
		script := s.Takes(kernels)
		if kernels&takesFragments == 0 {
			script, _ = s.Get(kernels)
		}
		if script != nil {
			scripts = append(scripts, script)
		}
	}
	return scripts
}

// sentSince returns the sets of kernels of the scripts that are in use since a moment, each once.
func (s *ScriptSet) sentSince(moment clock.Moment) (sets []KernelSet) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for kernels, script := range s.Built {
		if script == nil {
			continue
		}
		if at := clock.Moment(script.sent.Load()); at > 0 && at+sentStep >= moment {
			sets = append(sets, kernels, kernels&^takesFragments)
			if kernels&AloneFragment != 0 {
				sets = append(sets, kernels&^takesFragments|TakesFragment)
			}
		}
	}
	slices.Sort(sets)
	return slices.Compact(sets)
}

// sentStep is how exactly it is noted when a script was sent: processors share what is rarely written.
const sentStep = clock.Moment(time.Second)

// SentAt notes when the script was sent.
func (s *Script) SentAt(at time.Time) {
	last := s.sent.Load()
	if moment := clock.MomentOf(at); last == 0 || moment-clock.Moment(last) > sentStep {
		s.sent.Store(int64(moment))
	}
}

// Introduce returns the command that has Redis keep the script: it runs it on a key, for no request. SCRIPT LOAD would be
// another right of the user.
func (s *Script) Introduce(ctx context.Context, key string) dial.NoRetryCmd {
	var none [8]byte // the number of policies, 0
	command := dial.NoRetryCmd{Cmd: goredis.NewCmd(ctx, "eval", s.Text, 1, key, none[:])}
	command.SetFirstKeyPos(commandArgs)
	return command
}

// build makes the script of a set of kernels.
func (s *ScriptSet) build(kernels KernelSet) (*Script, error) {
	text, err := s.text(kernels)
	if err != nil {
		return nil, fmt.Errorf("building a script: %w", err)
	}
	text = withNumbers(text)
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return &Script{Text: text, Sha: hex.EncodeToString(sum[:])}, nil
}

// text returns the text of a script, with the names of its numbers.
func (s *ScriptSet) text(kernels KernelSet) (string, error) {
	own := names(kernels)
	if kernels&AloneFragment != 0 {
		return scripts.BuildAlone(s.Clock, own[0])
	}
	if checks := kernels & takesFragments / TakesFragment; checks != 0 {
		return scripts.BuildTakes(s.Clock, int(checks)-1, own...) //nolint:gosec // three bits
	}
	var fragments []string
	leases := kernels&leaseFragment != 0
	if leases {
		fragments = append(fragments, "lease")
	}
	for _, name := range own {
		fragments = append(fragments, name)
		if leases && leasing&(1<<slices.Index(KernelNames, name)) != 0 {
			fragments = append(fragments, name+"_lease")
		}
	}
	if kernels&banFragment != 0 {
		fragments = append(fragments, "ban")
	}
	return scripts.Build(s.Clock, fragments...)
}
