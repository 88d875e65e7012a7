// Command structure measures how the packages of the root module hang together, and fails where there are more packages,
// types of one name, or files of a package that lead to one another, than the file of bounds allows, and where packages
// import something else than the picture of the house in DESIGN.md shows:
//
//	go -C tools run ./structure -table ..
//
// A reference leads from a file to another one of its package that declares something the first one names: a
// type, function, method, field, variable or constant. A circle is files of which each leads to all others. Tests
// do not count.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	path := flag.String("bounds", "structure.txt", "the `file` of bounds: see its first lines")
	page := flag.String("house", "DESIGN.md", "the `page` of the module that has the picture of the house")
	table := flag.Bool("table", false, "print how large and how entangled each package is")
	list := flag.String("circle", "", "list the references between the files of the largest circle of this `package`")
	flag.Parse()
	if err := run(*path, *page, *table, *list, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run measures the module in a folder and checks it against the bounds and the picture on a page.
func run(path, page string, table bool, list, folder string) error {
	bounds, err := readBounds(path)
	if err != nil {
		return err
	}
	loaded, err := packages.Load(&packages.Config{
		Dir:  folder,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedModule,
	}, "./...")
	if err != nil {
		return err
	}
	if packages.PrintErrors(loaded) > 0 {
		return errors.New("the packages do not compile")
	}
	if table {
		fmt.Printf("%-28s %5s %5s %6s %10s\n", "package", "files", "lines", "circle", "references")
	}
	broken := bounds.brokenByAll(loaded)
	loaded = slices.DeleteFunc(loaded, func(p *packages.Package) bool { return len(p.Syntax) == 0 }) // tests alone
	for _, p := range loaded {
		name, s := nameOf(p), measure(p)
		if what := bounds.broken(name, s); what != "" {
			broken = append(broken, what)
		}
		if table {
			fmt.Printf("%-28s %5d %5d %6d %10d\n", name, s.files, s.lines, len(s.circle), len(s.inside))
		}
		if name == list {
			fmt.Println(strings.Join(s.inside, "\n"))
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("more than %s allows:\n%s", path, strings.Join(broken, "\n"))
	}
	drawn, err := readHouse(filepath.Join(folder, page))
	if err != nil {
		return err
	}
	return drawn.broken(loaded)
}

// nameOf returns a package's path in its module; the root is a dot.
func nameOf(p *packages.Package) string {
	if name := strings.TrimPrefix(p.PkgPath, p.Module.Path+"/"); name != p.Module.Path {
		return name
	}
	return "."
}

// size is how large and how entangled a package is.
type size struct {
	files, lines int
	circle       []string // the files of the largest circle
	inside       []string // the references between them, with the names
}

func measure(p *packages.Package) (s size) {
	refs := references(p)
	var names []string
	for _, f := range p.Syntax {
		names = append(names, fileOf(p, f))
		s.lines += p.Fset.File(f.FileStart).LineCount()
	}
	s.files = len(names)
	for _, circle := range circles(names, refs) {
		if len(circle) > len(s.circle) {
			s.circle = circle
		}
	}
	for _, from := range s.circle {
		for _, to := range s.circle {
			if words := refs[from][to]; len(words) > 0 {
				s.inside = append(s.inside, from+" -> "+to+": "+strings.Join(words, " "))
			}
		}
	}
	return s
}

func fileOf(p *packages.Package, f *ast.File) string {
	return filepath.Base(p.Fset.File(f.FileStart).Name())
}

// references returns the names by which each file leads to each other one.
func references(p *packages.Package) map[string]map[string][]string {
	refs := map[string]map[string][]string{}
	for _, f := range p.Syntax {
		from := fileOf(p, f)
		refs[from] = map[string][]string{}
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			object := p.TypesInfo.Uses[id]
			if object == nil || object.Pkg() != p.Types || isLocal(object) {
				return true
			}
			to := filepath.Base(p.Fset.Position(object.Pos()).Filename)
			if to != from && !slices.Contains(refs[from][to], id.Name) {
				refs[from][to] = append(refs[from][to], id.Name)
			}
			return true
		})
	}
	return refs
}

// isLocal reports whether an object is declared within a function. A field and a method are not.
func isLocal(object types.Object) bool {
	scope := object.Parent()
	return scope != nil && scope != object.Pkg().Scope()
}

// circles returns the files that lead to one another, by Tarjan's algorithm. A file alone is none.
func circles(names []string, refs map[string]map[string][]string) (found [][]string) {
	number, low, stack := map[string]int{}, map[string]int{}, []string(nil)
	var visit func(name string)
	visit = func(name string) {
		number[name] = len(number) + 1
		low[name] = number[name]
		stack = append(stack, name)
		for to := range refs[name] {
			if number[to] == 0 {
				visit(to)
				low[name] = min(low[name], low[to])
			} else if slices.Contains(stack, to) {
				low[name] = min(low[name], number[to])
			}
		}
		if low[name] < number[name] {
			return
		}
		at := slices.Index(stack, name)
		circle := slices.Clone(stack[at:])
		stack = stack[:at]
		if len(circle) > 1 {
			slices.Sort(circle)
			found = append(found, circle)
		}
	}
	for _, name := range names {
		if number[name] == 0 {
			visit(name)
		}
	}
	return found
}

// boundsFile has the most that there may be.
type boundsFile struct {
	circles  map[string]int // files of the largest circle, by the package's name; * is any other package
	files    map[string]int // of a package, without tests
	types    map[string]int // types of a name, in all packages
	packages int
}

func readBounds(path string) (boundsFile, error) {
	b := boundsFile{circles: map[string]int{}, files: map[string]int{}, types: map[string]int{}}
	text, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ := strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := b.add(words); err != nil {
			return b, fmt.Errorf("%s: %q: %w", path, line, err)
		}
	}
	if _, found := b.circles["*"]; !found {
		return b, fmt.Errorf("%s: has no line of circle * for the other packages", path)
	}
	return b, nil
}

// add takes a line of the file.
func (b *boundsFile) add(words []string) (err error) {
	kinds := map[string]map[string]int{"circle": b.circles, "files": b.files, "type": b.types}
	switch kind := kinds[words[0]]; {
	case words[0] == "packages" && len(words) == 2:
		b.packages, err = strconv.Atoi(words[1])
	case kind != nil && len(words) == 3:
		kind[words[1]], err = strconv.Atoi(words[2])
	default:
		err = errors.New("write packages and a number, or circle, files or type, a name and a number")
	}
	return err
}

// broken returns what of a package is above its bound, empty if nothing is.
func (b *boundsFile) broken(name string, s size) string {
	most, found := b.circles[name]
	if !found {
		most = b.circles["*"]
	}
	switch files, bounded := b.files[name]; {
	case len(s.circle) > most:
		return fmt.Sprintf("%s: %d files in a circle, at most %d", name, len(s.circle), most)
	case bounded && s.files > files:
		return fmt.Sprintf("%s: %d files, at most %d", name, s.files, files)
	}
	return ""
}

// brokenByAll returns what of all packages together, those of tests alone with them, is above its bound.
func (b *boundsFile) brokenByAll(loaded []*packages.Package) (broken []string) {
	if len(loaded) > b.packages {
		broken = append(broken, fmt.Sprintf("%d packages, at most %d", len(loaded), b.packages))
	}
	return append(broken, tooMany(countTypes(loaded), b.types)...)
}
