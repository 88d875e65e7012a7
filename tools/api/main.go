// Command api lists what the module's public Go packages export, one declaration a line, and fails where the list
// differs from the file that is kept. A line that goes or changes breaks Go programs:
//
//	go -C tools run ./api ..
//	go -C tools run ./api -write ..
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/types"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// public are the packages whose exported names stay within a major version.
var public = []string{"./limiter", "./limiter/memory", "./limiter/redis", "./limiter/redis/dial", "./limiter/failover", "./credentials"}

func main() {
	path := flag.String("list", "api.txt", "the `file` of the list")
	write := flag.Bool("write", false, "write the list instead of comparing it")
	flag.Parse()
	if err := run(*path, flag.Arg(0), *write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run compares the list of the packages in a folder with the file, or writes it.
func run(path, folder string, write bool) error {
	lines, err := list(folder)
	if err != nil {
		return err
	}
	text := []byte(strings.Join(lines, "\n") + "\n")
	if write {
		return os.WriteFile(path, text, 0o644) //nolint:gosec // it holds no secret
	}
	kept, err := os.ReadFile(path)
	if err != nil || bytes.Equal(kept, text) {
		return err
	}
	old := strings.Split(strings.TrimSuffix(string(kept), "\n"), "\n")
	for _, line := range old {
		if !slices.Contains(lines, line) {
			err = errors.Join(err, errors.New("gone, which breaks Go programs: "+line))
		}
	}
	for _, line := range lines {
		if !slices.Contains(old, line) {
			err = errors.Join(err, errors.New("new, to be listed: "+line))
		}
	}
	return errors.Join(err, errors.New("run go -C tools run ./api -write .. if that is meant"))
}

// list returns the exported declarations of the public packages in the order of the alphabet.
func list(folder string) ([]string, error) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedSyntax | packages.NeedTypesInfo, Dir: folder}, public...)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		short := p.PkgPath[strings.LastIndex(p.PkgPath, "caddy-redis-ratelimit/")+len("caddy-redis-ratelimit/"):]
		for _, name := range p.Types.Scope().Names() {
			if object := p.Types.Scope().Lookup(name); object.Exported() {
				for _, line := range declarations(object) {
					lines = append(lines, "pkg "+short+", "+line)
				}
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// declarations returns the lines of an exported name: for a type those of its fields and methods too.
func declarations(object types.Object) []string {
	within := func(p *types.Package) string {
		if p == object.Pkg() {
			return ""
		}
		return p.Path()
	}
	named, is := object.Type().(*types.Named)
	if _, isType := object.(*types.TypeName); !isType || !is {
		line := types.ObjectString(object, within)
		if constant, is := object.(*types.Const); is {
			line += " = " + constant.Val().ExactString()
		}
		return []string{line}
	}
	head := "type " + object.Name() + " "
	var lines []string
	switch shape := named.Underlying().(type) {
	case *types.Struct:
		lines = append(lines, head+"struct")
		for field := range shape.Fields() {
			if field.Exported() {
				lines = append(lines, head+"struct, "+field.Name()+" "+types.TypeString(field.Type(), within))
			}
		}
	default:
		lines = append(lines, head+types.TypeString(shape, within))
	}
	methods := types.NewMethodSet(types.NewPointer(named))
	for method := range methods.Methods() {
		if _, isInterface := named.Underlying().(*types.Interface); !isInterface && method.Obj().Exported() {
			lines = append(lines, head+types.SelectionString(method, within))
		}
	}
	return lines
}
