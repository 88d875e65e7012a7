// Command generate writes the scripts of takes alone into the current folder, that of the other fragments: one for each
// kernel, takes.lua with the prelude and the kernel in it, the functions of both in place of their calls.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate() error {
	scripts, err := takes(os.DirFS("."))
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
