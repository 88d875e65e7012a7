package wire

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

// fragmentSets are the fragments of the algorithms, those with a fragment of leases, and those with a script of takes
// alone.
type fragmentSets struct {
	names           []string
	leasing, taking KernelSet
	sets            map[*kernel.Algorithm]KernelSet
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
		if scripts.HasTakes(a.Script) {
			f.taking |= 1 << len(f.names)
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

// TakesFragment is the script of takes of one kernel, instead of batch.lua.
const TakesFragment KernelSet = 1 << 29

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
	Built  map[KernelSet]*Script
}

// Get returns the script of a set of kernels, and builds it the first time.
func (s *ScriptSet) Get(kernels KernelSet) (*Script, error) {
	if s.Always {
		kernels &^= TakesFragment
	}
	s.mu.RLock()
	built := s.Built[kernels]
	s.mu.RUnlock()
	if built != nil {
		return built, nil
	}
	text, err := s.build(kernels)
	if err != nil {
		return nil, fmt.Errorf("building a script: %w", err)
	}
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	built = &Script{Text: text, Sha: hex.EncodeToString(sum[:])}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Built == nil {
		s.Built = map[KernelSet]*Script{}
	}
	s.Built[kernels] = built
	return built, nil
}

// InUse returns the scripts that were sent at a moment or later. Where one of takes alone was, the script that also changes
// what was taken is another: debts of an outage need it.
func (s *ScriptSet) InUse(moment clock.Moment) (scripts []*Script) {
	for _, kernels := range s.sentSince(moment) {
		if script, err := s.Get(kernels); err == nil {
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
		if at := clock.Moment(script.sent.Load()); at > 0 && at+sentStep >= moment {
			sets = append(sets, kernels, kernels&^TakesFragment)
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
func (s *Script) Introduce(ctx context.Context, key string) NoRetryCmd {
	var none [8]byte // the number of policies, 0
	command := NoRetryCmd{goredis.NewCmd(ctx, "eval", s.Text, 1, key, none[:])}
	command.SetFirstKeyPos(commandArgs)
	return command
}

// build returns the text of a script.
func (s *ScriptSet) build(kernels KernelSet) (string, error) {
	if kernels&TakesFragment != 0 {
		return scripts.BuildTakes(s.Clock, KernelNames[bits.TrailingZeros(uint(kernels))])
	}
	var names []string
	leases := kernels&leaseFragment != 0
	if leases {
		names = append(names, "lease")
	}
	for i, name := range KernelNames {
		if kernels&(1<<i) != 0 {
			names = append(names, name)
			if leases && leasing&(1<<i) != 0 {
				names = append(names, name+"_lease")
			}
		}
	}
	if kernels&banFragment != 0 {
		names = append(names, "ban")
	}
	return scripts.Build(s.Clock, names...)
}
