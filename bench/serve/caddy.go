package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// caddyfile is a whole configuration: options, port and lines of the site. It logs no errors, because
// the baseline has none to log.
const caddyfile = `{
	admin off
	auto_https off
	persist_config off
	log {
		level FATAL
	}
	%s
}

http://:%s {
	bind 127.0.0.1
	%s
}
`

// Caddy starts a Caddy with lines of the global options and of the site, in which {$REDIS} is an address.
func Caddy(ctx context.Context, dir, binary, name, options, site, redisAddr string) (*Process, error) {
	addr, port, err := freeAddr()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, name+".Caddyfile")
	if err := os.WriteFile(file, fmt.Appendf(nil, caddyfile, options, port, site), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, name, addr, dir, []string{"REDIS=" + redisAddr}, binary, "run", "--config", file, "--adapter", "caddyfile")
}
