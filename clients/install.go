package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// install installs what clients need that have their version here: the packages of node/ and the programs of gosdk/.
// What cannot be installed is told, and its clients are skipped.
func (b *bench) install(ctx context.Context) {
	if err := b.installNode(ctx); err != nil {
		fmt.Println("the packages of clients/node are not installed:", err)
	}
	if err := b.installGo(ctx); err != nil {
		fmt.Println("the programs of clients/gosdk are not installed:", err)
	}
}

// installNode installs the packages if the list of them has changed.
func (b *bench) installNode(ctx context.Context) error {
	from, folder := filepath.Join(b.root, "clients", "node"), filepath.Join(b.built, "node")
	lock, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	if err != nil {
		return err
	}
	done := filepath.Join(folder, "installed.json")
	if last, err := os.ReadFile(done); err == nil && bytes.Equal(last, lock) {
		return nil
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = writeFile(filepath.Join(folder, name), content)
		}
		if err != nil {
			return err
		}
	}
	fmt.Println("installing the packages of clients/node")
	if err := output(ctx, folder, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		return err
	}
	for _, name := range []string{"pnpm", "yarn"} {
		link := filepath.Join(b.built, name)
		_ = os.Remove(link) // there may be none
		if err := os.Symlink(filepath.Join("node", "node_modules", ".bin", name), link); err != nil {
			return err
		}
	}
	return os.WriteFile(done, lock, 0o600)
}

// installGo builds the programs, which takes no time if nothing has changed.
func (b *bench) installGo(ctx context.Context) error {
	return output(ctx, filepath.Join(b.root, "clients", "gosdk"), []string{"CGO_ENABLED=0", "GOFLAGS=", "GOBIN=" + b.built},
		"go", "install", "-trimpath", "tool", ".")
}

// output runs a command, whose error has what it printed.
func output(ctx context.Context, folder string, env []string, words ...string) error {
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir, command.Env = folder, append(os.Environ(), env...)
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", words, err, text)
	}
	return nil
}
