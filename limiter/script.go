package limiter

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by SHA-1; nothing is protected by it
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// kernelSet is a set of script fragments, a bit for each in the order of kernelNames.
type kernelSet uint

// kernelNames are the fragments of the registry, each once.
var kernelNames = func() []string {
	var names []string
	for i := range registry {
		if !slices.Contains(names, registry[i].script) {
			names = append(names, registry[i].script)
		}
	}
	return names
}()

func kernelSetOf(a *algorithm) kernelSet {
	return 1 << slices.Index(kernelNames, a.script)
}

// banFragment is the fragment of bans, behind all kernels.
const banFragment kernelSet = 1 << 31

// kernelSet returns the fragments that decide by the policy.
func (p *Policy) kernelSet() kernelSet {
	set := kernelSetOf(p.algorithm)
	if p.ban != nil {
		set |= banFragment
	}
	return set
}

// place returns the kernel's place among those of the set, from 1.
func (s kernelSet) place(a *algorithm) int64 {
	return int64(bits.OnesCount(uint(s&(kernelSetOf(a)-1)))) + 1
}

// script is a text that Redis identifies by its SHA-1.
type script struct{ text, sha string }

// scriptSet builds the script for each set of kernels, once.
type scriptSet struct {
	clock string // a fragment instead of Redis's own clock, for tests
	mu    sync.RWMutex
	built map[kernelSet]*script
}

func (s *scriptSet) get(kernels kernelSet) (*script, error) {
	s.mu.RLock()
	built := s.built[kernels]
	s.mu.RUnlock()
	if built != nil {
		return built, nil
	}
	var names []string
	for i, name := range kernelNames {
		if kernels&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if kernels&banFragment != 0 {
		names = append(names, "ban")
	}
	text, err := scripts.Build(s.clock, names...)
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
