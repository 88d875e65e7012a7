package adminapi

import (
	"runtime/debug"
	"testing"
)

func TestVersionIn(t *testing.T) {
	t.Parallel()
	const caddy = "github.com/caddyserver/caddy/v2"
	info := &debug.BuildInfo{Main: debug.Module{Path: "caddy", Version: "(devel)"}, Deps: []*debug.Module{
		{Path: modulePath, Version: "v1.2.3"},
		{Path: caddy, Version: "v2.11.9", Replace: &debug.Module{Path: "/src"}},
		{Path: "example.com/fork", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/other", Version: "v9.0.0"}},
	}}
	for path, want := range map[string]string{
		modulePath: "v1.2.3", caddy: "(devel)", "example.com/fork": "v9.0.0", "caddy": "(devel)", "example.com/none": "(devel)",
	} {
		if got := versionIn(info, path); got != want {
			t.Errorf("version of %s: %q, want %q", path, got, want)
		}
	}
}
