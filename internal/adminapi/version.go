package adminapi

import "runtime/debug"

const modulePath = "github.com/redis-ratelimit/caddy-redis-ratelimit"

// ModuleVersions returns the versions of this module and of Caddy in the binary that runs. A module that was built
// from a folder has "(devel)".
func ModuleVersions() (module, caddy string) {
	info, found := debug.ReadBuildInfo()
	if !found {
		return "(devel)", "(devel)"
	}
	return versionIn(info, modulePath), versionIn(info, "github.com/caddyserver/caddy/v2")
}

// versionIn returns the version of a module of a build.
func versionIn(info *debug.BuildInfo, path string) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != path {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}
