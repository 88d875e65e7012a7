// Command generate writes the scripts of takes into the current folder, that of the other fragments.
package main

import (
	"fmt"
	"os"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts/internal/takes"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate() error {
	scripts, err := takes.Generate(os.DirFS("."))
	if err != nil {
		return err
	}
	for name, text := range scripts {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
