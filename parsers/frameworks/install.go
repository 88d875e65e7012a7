package frameworks

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

// Workshop is where frameworks are installed.
type Workshop struct {
	Parsers string // this repository's folder parsers, which programs of a release find at /srv/parsers
	Built   string // the folder below which frameworks are installed, which these programs find at /srv/built
	Node    string // the folder below Parsers with the package.json of npm
	Go      string // the package of the module goservers, whose program is Built/goservers

	mu     sync.Mutex
	making map[string]*sync.Mutex // by file
}

// Install installs what some of the programs need, unless it is there.
func (w *Workshop) Install(ctx context.Context, all, chosen []*Program) error {
	if err := os.MkdirAll(w.Built, 0o755); err != nil {
		return err
	}
	for _, suite := range []string{OldSuite, NewSuite} {
		if slices.ContainsFunc(chosen, func(p *Program) bool { return p.Suite == suite }) {
			if err := w.installSuite(ctx, suite, all); err != nil {
				return err
			}
		}
	}
	if slices.ContainsFunc(chosen, func(p *Program) bool { return strings.Contains(strings.Join(p.Command, " "), "node") }) {
		if err := w.installNode(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(chosen, func(p *Program) bool { return p.Command[0] == "{built}/goservers" }) {
		return w.Build(ctx, filepath.Join(w.Parsers, "goservers"), w.Go, "goservers")
	}
	return nil
}

// Build builds a program of Go below the folder of what is installed.
func (w *Workshop) Build(ctx context.Context, module, pkg, program string) error {
	return output(ctx, module, "go", "build", "-trimpath", "-tags=nobadger,nomysql,nopgx", "-o", filepath.Join(w.Built, program), pkg)
}

// installSuite unpacks the packages of a release, those of all programs at once. They are unpacked again only if the list
// has changed.
func (w *Workshop) installSuite(ctx context.Context, suite string, all []*Program) error {
	var packages []string
	for _, p := range all {
		if p.Suite == suite {
			packages = append(packages, p.Packages...)
		}
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	folder := filepath.Join(w.Built, suite)
	return once(filepath.Join(folder, "packages"), strings.Join(packages, "\n"), func() error {
		fmt.Println("unpacking the packages of", suite)
		return output(ctx, filepath.Dir(w.Parsers), ".ci/unpack", append([]string{suite, folder}, packages...)...)
	})
}

// installNode installs the packages of npm.
func (w *Workshop) installNode(ctx context.Context) error {
	folder := filepath.Join(w.Built, "node")
	lock, err := os.ReadFile(filepath.Join(w.Parsers, w.Node, "package-lock.json"))
	if err != nil {
		return err
	}
	return once(filepath.Join(folder, "installed"), string(lock), func() error {
		fmt.Println("installing the packages of", w.Node)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, name := range []string{"package.json", "package-lock.json"} {
			content, err := os.ReadFile(filepath.Join(w.Parsers, w.Node, name))
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

// compile runs the command before a program, unless it has run for these sources.
func (w *Workshop) compile(ctx context.Context, p *Program) error {
	if len(p.Prepare) == 0 {
		return nil
	}
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, p.Prepare) // a hash takes all
	err := fs.WalkDir(os.DirFS(filepath.Join(w.Parsers, p.Sources)), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(w.Parsers, p.Sources, path))
		_, _ = sum.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	done := filepath.Join(w.Built, p.Suite, "compiled-"+p.Compiled)
	alone := w.lockOf(done) // several frameworks are one program
	alone.Lock()
	defer alone.Unlock()
	return once(done, hex.EncodeToString(sum.Sum(nil)), func() error {
		text, err := w.command(ctx, p, p.Prepare).CombinedOutput()
		if err != nil {
			return fmt.Errorf("compiling %s: %w\n%s", p.Name, err, text)
		}
		return nil
	})
}

// lockOf returns the lock of a file that one at a time may make.
func (w *Workshop) lockOf(file string) *sync.Mutex {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.making == nil {
		w.making = map[string]*sync.Mutex{}
	}
	if w.making[file] == nil {
		w.making[file] = &sync.Mutex{}
	}
	return w.making[file]
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
