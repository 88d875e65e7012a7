package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// install installs what the servers need below the folder of what was built, unless it is there.
func (h *harness) install(ctx context.Context, servers []*server) error {
	for _, suite := range []string{oldSuite, newSuite} {
		if err := h.installSuite(ctx, suite, servers); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(servers, func(s *server) bool { return strings.Contains(strings.Join(s.command, " "), "node") }) {
		if err := h.installNode(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(servers, func(s *server) bool { return s.command[0] == "{built}/goservers" }) {
		program := filepath.Join(h.built, "goservers")
		return output(ctx, filepath.Join(h.parsers, "goservers"), "go", "build", "-trimpath", "-o", program, ".")
	}
	return nil
}

// installSuite unpacks the packages of a release, those of all servers at once. They are unpacked again only if the list
// has changed.
func (h *harness) installSuite(ctx context.Context, suite string, servers []*server) error {
	if !slices.ContainsFunc(servers, func(s *server) bool { return s.suite == suite }) {
		return nil
	}
	var packages []string
	for _, s := range list() {
		if s.suite == suite {
			packages = append(packages, s.packages...)
		}
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	folder := filepath.Join(h.built, suite)
	return once(filepath.Join(folder, "packages"), strings.Join(packages, "\n"), func() error {
		fmt.Println("unpacking the packages of", suite)
		return output(ctx, filepath.Dir(h.parsers), ".ci/unpack", append([]string{suite, folder}, packages...)...)
	})
}

// installNode installs the packages of npm.
func (h *harness) installNode(ctx context.Context) error {
	folder := filepath.Join(h.built, "node")
	lock, err := os.ReadFile(filepath.Join(h.parsers, "node", "package-lock.json"))
	if err != nil {
		return err
	}
	return once(filepath.Join(folder, "installed"), string(lock), func() error {
		fmt.Println("installing the packages of node/")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, name := range []string{"package.json", "package-lock.json"} {
			content, err := os.ReadFile(filepath.Join(h.parsers, "node", name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
				return err
			}
		}
		return output(ctx, folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	})
}

// compile runs the command before a server, unless it has run for these sources.
func (h *harness) compile(ctx context.Context, s *server) error {
	if len(s.prepare) == 0 {
		return nil
	}
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, s.prepare) // a hash takes all
	err := fs.WalkDir(os.DirFS(filepath.Join(h.parsers, s.sources)), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(h.parsers, s.sources, path))
		_, _ = sum.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	done := filepath.Join(h.built, s.suite, "compiled-"+s.compiled)
	alone := h.lockOf(done) // several servers are one program
	alone.Lock()
	defer alone.Unlock()
	return once(done, hex.EncodeToString(sum.Sum(nil)), func() error {
		text, err := h.prepare(ctx, s, s.prepare).CombinedOutput()
		if err != nil {
			return fmt.Errorf("compiling %s: %w\n%s", s, err, text)
		}
		return nil
	})
}

// lockOf returns the lock of a file that one at a time may make.
func (h *harness) lockOf(file string) *sync.Mutex {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.making[file] == nil {
		h.making[file] = &sync.Mutex{}
	}
	return h.making[file]
}

// once does what makes a file's content, unless the file has the content.
func once(file, content string, do func() error) error {
	if last, err := os.ReadFile(file); err == nil && string(last) == content {
		return nil
	}
	if err := do(); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(content), 0o600)
}

// output runs a command, whose error has what it printed.
func output(ctx context.Context, folder, program string, words ...string) error {
	command := exec.CommandContext(ctx, program, words...)
	command.Dir = folder
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", program, words, err, text)
	}
	return nil
}
