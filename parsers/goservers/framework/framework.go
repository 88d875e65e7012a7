// Package framework runs one of several servers that a program has: PROGRAM FRAMEWORK PORT.
package framework

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Framework is one that can be served.
type Framework struct {
	Modules []string // whose versions are told, beside Go's
	Serve   func(address string) error
}

// Main serves the framework that the first argument names at the port of the second one. It prints the versions first.
func Main(frameworks map[string]Framework) {
	chosen, ok := frameworks[os.Args[1]]
	if !ok {
		fmt.Fprintln(os.Stderr, "no framework is called", os.Args[1])
		os.Exit(2)
	}
	fmt.Println(versions(chosen.Modules))
	if err := chosen.Serve("127.0.0.1:" + os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// versions returns the names of modules with their versions.
func versions(modules []string) string {
	told := []string{"Go " + strings.TrimPrefix(runtime.Version(), "go")}
	info, _ := debug.ReadBuildInfo()
	for _, path := range modules {
		for _, module := range info.Deps {
			if module.Path == path {
				told = append(told, strings.TrimPrefix(path, "github.com/")+" "+strings.TrimPrefix(module.Version, "v"))
			}
		}
	}
	return strings.Join(told, ", ")
}
