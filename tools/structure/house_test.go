package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestHouse_broken draws houses of three packages: the root imports gate and Caddy, and gate imports rule.
func TestHouse_broken(t *testing.T) {
	module := &packages.Module{Path: "m"}
	pkg := func(path string, imports ...*packages.Package) *packages.Package {
		p := &packages.Package{PkgPath: path, Module: module, Imports: map[string]*packages.Package{}}
		for _, i := range imports {
			p.Imports[i.PkgPath] = i
		}
		return p
	}
	rule := pkg("m/internal/rule")
	gate := pkg("m/internal/gate", rule)
	caddy := &packages.Package{PkgPath: "github.com/caddyserver/caddy/v2/modules/caddyhttp", Module: &packages.Module{Path: "other"}}
	root := pkg("m", gate, caddy)

	for drawn, want := range map[string]string{
		"Roof\n  ./ -> Caddy, gate\nCellar\n  gate -> rule\n  rule ->": "",
		"  ./ -> Caddy, gate\n  rule ->\n  gate -> rule":               "gate imports rule, and has to stand above it",
		"  ./ -> gate\n  gate -> rule\n  rule ->":                      "./ imports something else; draw\n  ./ -> Caddy, gate",
		"  ./ -> Caddy, gate\n  gate -> rule":                          "draw a line:\n  rule -> ",
		"  ./ -> Caddy, gate\n  gate -> rule\n  rule ->\n  lease ->":   "there is no package lease",
	} {
		page := filepath.Join(t.TempDir(), "DESIGN.md")
		if err := os.WriteFile(page, []byte("# Page\n\n```house\n"+drawn+"\n```\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := readHouse(page)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := h.broken([]*packages.Package{root, gate, rule}); err != nil {
			got = err.Error()
		}
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%q: got %q, want %q", drawn, got, want)
		}
	}
}
