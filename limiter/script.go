package limiter

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by SHA-1; nothing is protected by it
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// kernelSet is a set of script fragments, a bit for each in the order of kernelNames.
type kernelSet uint

// kernelNames are the fragments of the algorithms, each once. Those of leasing are the set of them that have a
// fragment of leases, those of taking the set that have a script of takes alone.
var kernelNames, leasing, taking = func() (names []string, leasing, taking kernelSet) {
	for _, a := range append(slices.Clone(kernel.Registry), kernel.RunningAlgorithm, kernel.CalendarAlgorithm) {
		if slices.Contains(names, a.Script) {
			continue
		}
		if a.Leases() {
			leasing |= 1 << len(names)
		}
		if scripts.HasTakes(a.Script) {
			taking |= 1 << len(names)
		}
		names = append(names, a.Script)
	}
	return names, leasing, taking
}()

func kernelSetOf(a *kernel.Algorithm) kernelSet {
	return 1 << slices.Index(kernelNames, a.Script)
}

// banFragment is the fragment of bans, behind all kernels.
const banFragment kernelSet = 1 << 31

// leaseFragment is the fragments of leases, one in front of the kernels and one behind each.
const leaseFragment kernelSet = 1 << 30

// takesFragment is takes.lua instead of batch.lua, for one kernel.
const takesFragment kernelSet = 1 << 29

// fragmentsOf returns the fragments that decide by a policy.
func fragmentsOf(p *Policy) kernelSet {
	set := kernelSetOf(p.Rule().Algorithm)
	if p.Rule().Ban != nil {
		set |= banFragment
	}
	return set
}

// place returns the kernel's place among those of the set, from 1.
func (s kernelSet) place(a *kernel.Algorithm) int64 {
	return int64(bits.OnesCount(uint(s&(kernelSetOf(a)-1)))) + 1
}

// script is a text that Redis identifies by its SHA-1.
type script struct{ text, sha string }

// scriptSet builds the script for each set of kernels, once.
type scriptSet struct {
	clock  string // a fragment instead of Redis's own clock, for tests
	always bool   // batch.lua for everything, for tests
	mu     sync.RWMutex
	built  map[kernelSet]*script
}

func (s *scriptSet) get(kernels kernelSet) (*script, error) {
	if s.always {
		kernels &^= takesFragment
	}
	s.mu.RLock()
	built := s.built[kernels]
	s.mu.RUnlock()
	if built != nil {
		return built, nil
	}
	text, err := s.build(kernels)
	if err != nil {
		return nil, fmt.Errorf("building a script: %w", err)
	}
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	built = &script{text: text, sha: hex.EncodeToString(sum[:])}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.built == nil {
		s.built = map[kernelSet]*script{}
	}
	s.built[kernels] = built
	return built, nil
}

// build returns the text of a script.
func (s *scriptSet) build(kernels kernelSet) (string, error) {
	if kernels&takesFragment != 0 {
		return scripts.BuildTakes(s.clock, kernelNames[bits.TrailingZeros(uint(kernels))])
	}
	var names []string
	leases := kernels&leaseFragment != 0
	if leases {
		names = append(names, "lease")
	}
	for i, name := range kernelNames {
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
	return scripts.Build(s.clock, names...)
}
