package redis

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// TestRegistry_scripts holds the registry against the files of scripts/.
func TestRegistry_scripts(t *testing.T) {
	files := assert.NoError(os.ReadDir("../../scripts"))(t)
	var found []string
	for _, file := range files {
		name, isLua := strings.CutSuffix(file.Name(), ".lua")
		if isLua && !slices.Contains([]string{"clock", "prelude", "kernels", "lease", "ban", "batch", "takes", "take_alone"}, name) {
			found = append(found, name)
		}
	}
	want := slices.Clone(KernelNames)
	for i, name := range KernelNames {
		if scripts.HasTakes(0, name) {
			want = append(want, name+"_changes")
		}
		if leasing&(1<<i) != 0 {
			want = append(want, name+"_lease")
		}
	}
	slices.Sort(want)
	assert.ErrorIf(t, fmt.Sprint(found) != fmt.Sprint(want), "scripts/ has %v, the registry %v", found, want)
	assert.ErrorIf(t, kernel.Registry[0].Name != limiter.DefaultAlgorithm,
		"the registry begins with %s, not with the default", kernel.Registry[0].Name)
}
