package serve

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
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
%s}

http://:%s {
	bind 127.0.0.1
%s}
`

// Site is the configuration of a Caddy, in lines of a Caddyfile.
type Site struct {
	Name    string
	Options []string // lines of the global options
	Lines   []string // lines of the site
}

// Caddy starts a Caddy that serves the site.
func Caddy(ctx context.Context, dir, binary string, site Site) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, site.Name+".Caddyfile")
	text := fmt.Sprintf(caddyfile, indent(site.Options), port, indent(site.Lines))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return Start(ctx, site.Name, addr, dir, nil, binary, "run", "--config", file, "--adapter", "caddyfile")
}

func indent(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString("\t" + line + "\n")
	}
	return text.String()
}
