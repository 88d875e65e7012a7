package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// caddyOptions are the global options of all configurations, with further ones. They log no errors, because the baseline
// has none to log.
const caddyOptions = `{
	admin off
	auto_https off
	persist_config off
	log {
		level FATAL
	}
	%s
}
`

// caddySite is a site: its port and its lines.
const caddySite = `
http://:%s {
	bind 127.0.0.1
	%s
}
`

// Caddy starts a Caddy with lines of the global options and of the site, in which {$REDIS} is an address.
func Caddy(ctx context.Context, dir, binary, name, options, site, redisAddr string) (*Process, error) {
	text := fmt.Appendf(nil, caddyOptions+caddySite, options, "{$PORT}", site)
	return CaddyOf(ctx, dir, binary, name, text, "REDIS="+redisAddr)
}

// CaddyOf starts a Caddy with a whole Caddyfile, whose site listens on 127.0.0.1:{$PORT}. It finds further variables in its
// environment.
func CaddyOf(ctx context.Context, dir, binary, name string, caddyfile []byte, env ...string) (*Process, error) {
	addr, port, err := freeAddr()
	if err != nil {
		return nil, err
	}
	command, err := caddyCommand(dir, binary, name, caddyfile)
	if err != nil {
		return nil, err
	}
	return start(ctx, name, addr, dir, append(env, "PORT="+port), command[0], command[1:]...)
}

// caddyCommand writes a Caddyfile and returns the command of a Caddy that serves it.
func caddyCommand(dir, binary, name string, text []byte) ([]string, error) {
	file := filepath.Join(dir, name+".Caddyfile")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return []string{binary, "run", "--config", file, "--adapter", "caddyfile"}, nil
}
