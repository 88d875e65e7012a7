package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// outside are the packages of other modules whose use the house shows, by the beginning of their paths.
var outside = map[string]string{
	"github.com/caddyserver/caddy/v2": "Caddy",
	"github.com/redis/go-redis/v9":    "go-redis",
}

// house is the picture of floors and arrows in a page: a block of code that begins with ```house. A line without an arrow is
// the title of a floor. Every other one is a package and, behind the arrow, all that the package imports of this module, of
// Caddy and of go-redis:
//
//	What is decided
//	  gate -> Caddy, answer, rule
//
// The path of a package within internal/ is written without internal/, and that of any other one begins with a dot. A package
// stands above all that it imports.
type house struct {
	order   []string // packages, from the roof down
	imports map[string][]string
}

func readHouse(path string) (house, error) {
	h := house{imports: map[string][]string{}}
	page, err := os.ReadFile(path)
	if err != nil {
		return h, err
	}
	_, block, found := strings.Cut(string(page), "\n```house\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !found || !closed {
		return h, fmt.Errorf("%s has no block of code that begins with ```house", path)
	}
	for line := range strings.Lines(block) {
		name, arrows, isPackage := strings.Cut(strings.TrimSpace(line), "->")
		if !isPackage {
			continue
		}
		name = strings.TrimSpace(name)
		if h.imports[name] != nil {
			return h, fmt.Errorf("%s: %s has two lines in the house", path, name)
		}
		h.order = append(h.order, name)
		h.imports[name] = strings.FieldsFunc(arrows, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
		slices.Sort(h.imports[name])
	}
	return h, nil
}

// inHouse returns how a package is called in the house.
func inHouse(p *packages.Package) string {
	name := nameOf(p)
	if inside, isInside := strings.CutPrefix(name, "internal/"); isInside {
		return inside
	}
	return "./" + strings.TrimPrefix(name, ".")
}

// importsOf returns what a package imports of this module, of Caddy and of go-redis, without its tests.
func importsOf(p *packages.Package) []string {
	found := map[string]bool{}
	for path, imported := range p.Imports {
		if imported.Module != nil && imported.Module.Path == p.Module.Path {
			found[inHouse(imported)] = true
		}
		for begin, name := range outside {
			if path == begin || strings.HasPrefix(path, begin+"/") {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// broken returns an error that says where the house and the packages differ.
func (h house) broken(loaded []*packages.Package) error {
	var wrong []error
	left := maps.Clone(h.imports)
	for _, p := range loaded {
		name := inHouse(p)
		delete(left, name)
		drawn, is := h.imports[name], importsOf(p)
		line := fmt.Sprintf("  %s -> %s", name, strings.Join(is, ", "))
		if at := slices.Index(h.order, name); at < 0 {
			wrong = append(wrong, fmt.Errorf("draw a line:\n%s", line))
		} else if !slices.Equal(drawn, is) {
			wrong = append(wrong, fmt.Errorf("%s imports something else; draw\n%s", name, line))
		} else if i := slices.IndexFunc(is, func(to string) bool { return slices.Contains(h.order[:at+1], to) }); i >= 0 {
			wrong = append(wrong, fmt.Errorf("%s imports %s, and has to stand above it", name, is[i]))
		}
	}
	for name := range left {
		wrong = append(wrong, fmt.Errorf("there is no package %s", name))
	}
	return errors.Join(wrong...)
}
