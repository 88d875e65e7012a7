package main

import (
	"fmt"
	"go/types"

	"golang.org/x/tools/go/packages"
)

// countTypes returns how many types of each name the packages declare, aliases and what functions declare left out.
func countTypes(loaded []*packages.Package) map[string][]string {
	found := map[string][]string{}
	for _, p := range loaded {
		scope := p.Types.Scope()
		for _, name := range scope.Names() {
			if t, ok := scope.Lookup(name).(*types.TypeName); ok && !t.IsAlias() {
				found[name] = append(found[name], nameOf(p))
			}
		}
	}
	return found
}

// tooMany returns the names that more types have than their bound.
func tooMany(found map[string][]string, most map[string]int) (broken []string) {
	for name, bound := range most {
		if len(found[name]) > bound {
			broken = append(broken, fmt.Sprintf("%d types are called %s, at most %d: %v", len(found[name]), name, bound, found[name]))
		}
	}
	return broken
}
