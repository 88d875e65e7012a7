package main

import (
	"context"
	"path/filepath"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"
)

// caddyProgram returns a Caddy with one of the Caddyfiles of the folder caddy.
func caddyProgram(file string, environment ...string) *frameworks.Program {
	command := append([]string{"env", "PORT={port}", "XDG_DATA_HOME={built}/xdg", "XDG_CONFIG_HOME={built}/xdg"}, environment...)
	return &frameworks.Program{
		Name:    "Caddy",
		Command: append(command, "{built}/caddy", "run", "--adapter", "caddyfile", "--config", "identity/caddy/"+file),
		Version: []string{"{built}/caddy", "version"},
	}
}

// startProxy starts a Caddy that does nothing but pass requests on to a server.
func (h *harness) startProxy(ctx context.Context, s *server, address string) (*frameworks.Running, error) {
	if s.fastCGI {
		folder := "/srv/parsers/identity/php" // as FPM sees the folder
		return h.workshop.Start(ctx, caddyProgram("FastCGI.caddyfile", "BACKEND="+address, "FOLDER="+folder,
			"FILES="+filepath.Join(h.workshop.Parsers, "identity", "php")))
	}
	return h.workshop.Start(ctx, caddyProgram("Proxy.caddyfile", "BACKEND="+address))
}
