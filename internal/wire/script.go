package wire

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by SHA-1; nothing is protected by it
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"sync"

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
type Script struct{ Text, Sha string }

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
