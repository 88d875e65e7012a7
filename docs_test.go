package redisratelimit

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// TestModules_documented reads the modules as Caddy's website does: the comment of each type and of each field with
// a JSON name. The list of fields and types is the configuration that stays within a major version:
// UPDATE_GOLDEN=1 writes it.
func TestModules_documented(t *testing.T) {
	t.Parallel()
	reader := &docReader{t: t, types: map[string]map[string]*ast.TypeSpec{}, comments: map[*ast.TypeSpec]string{}}
	var ours []string
	for _, id := range caddy.Modules() {
		info, err := caddy.GetModule(id)
		if err != nil {
			t.Fatal(err)
		}
		module := reflect.Indirect(reflect.ValueOf(info.New())).Type()
		if !strings.HasPrefix(module.PkgPath(), modulePath) {
			continue
		}
		ours = append(ours, id)
		reader.list = append(reader.list, "module "+id)
		reader.walk(id, module, true)
	}
	if want := []string{"admin.api.redis_ratelimit", "http.handlers.redis_ratelimit", "redis_ratelimit", "redis_ratelimit.credentials.file"}; !slices.Equal(ours, want) {
		t.Errorf("modules %q, want %q", ours, want)
	}
	compareGolden(t, filepath.Join("testdata", "json_fields.txt"), strings.Join(reader.list, "\n")+"\n")
}

// compareGolden compares a text with a file that is kept, line by line.
func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // it holds no secret
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	now, before := strings.Split(got, "\n"), strings.Split(string(kept), "\n")
	for _, line := range before {
		if !slices.Contains(now, line) {
			t.Errorf("%s: gone or changed, which breaks what users have: %s", path, line)
		}
	}
	for _, line := range now {
		if !slices.Contains(before, line) {
			t.Errorf("%s: new, UPDATE_GOLDEN=1 lists it: %s", path, line)
		}
	}
}

const modulePath = "github.com/redis-ratelimit/caddy-redis-ratelimit"

// typesOfVersion1 names types of Go as they were called where testdata/json_fields.txt was begun. JSON does not show them.
var typesOfVersion1 = strings.NewReplacer("options.", "redisratelimit.", "answer.Preference", "refusal.Answer")

// docReader walks types and finds their comments.
type docReader struct {
	t        *testing.T
	types    map[string]map[string]*ast.TypeSpec // of a package's path, by name
	comments map[*ast.TypeSpec]string
	list     []string
}

// walk lists the JSON fields of a type of this module. A module's comment begins with its name.
func (d *docReader) walk(path string, typ reflect.Type, module bool) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if !strings.HasPrefix(typ.PkgPath(), modulePath) || typ.Kind() != reflect.Struct {
		return
	}
	spec := d.find(typ)
	if comment := d.comments[spec]; module && !strings.HasPrefix(comment, typ.Name()+" ") {
		d.t.Errorf("%s: the comment of %s does not begin with its name: %q", path, typ, comment)
	}
	shape, is := spec.Type.(*ast.StructType)
	if !is {
		return
	}
	docs := map[string]string{}
	for _, field := range shape.Fields.List {
		for _, name := range field.Names {
			docs[name.Name] = strings.TrimSpace(field.Doc.Text())
		}
	}
	for field := range typ.Fields() {
		tag, tagged := field.Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case field.Anonymous && name == "":
			d.walk(path, field.Type, false)
		case !field.IsExported() || name == "-":
		case !tagged:
			d.t.Errorf("%s: %s.%s has no JSON name", path, typ, field.Name)
		default:
			if docs[field.Name] == "" {
				d.t.Errorf("%s: %s.%s has no comment", path, typ, field.Name)
			}
			guest := field.Tag.Get("caddy")
			if strings.Contains(field.Type.String(), "json.RawMessage") && guest == "" {
				d.t.Errorf("%s: %s.%s names no namespace of its modules", path, typ, field.Name)
			}
			line := fmt.Sprintf("%s.%s %s", path, name, typesOfVersion1.Replace(field.Type.String()))
			if guest != "" {
				line += " " + guest
			}
			d.list = append(d.list, line)
			d.walk(path+"."+name, field.Type, false)
		}
	}
}

// find returns the declaration of a type of this module.
func (d *docReader) find(typ reflect.Type) *ast.TypeSpec {
	folder := strings.TrimPrefix(strings.TrimPrefix(typ.PkgPath(), modulePath), "/")
	if d.types[folder] == nil {
		d.types[folder] = d.parse(filepath.Join(".", filepath.FromSlash(folder)))
	}
	spec := d.types[folder][typ.Name()]
	if spec == nil {
		d.t.Fatalf("%s is declared in no file of %q", typ, folder)
	}
	return spec
}

// parse returns the types that the files of a folder declare.
func (d *docReader) parse(folder string) map[string]*ast.TypeSpec {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		d.t.Fatalf("no Go files in %s: %v", folder, err)
	}
	found := map[string]*ast.TypeSpec{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, declared := range file.Decls {
			group, is := declared.(*ast.GenDecl)
			if !is || group.Tok != token.TYPE {
				continue
			}
			for _, one := range group.Specs {
				if spec, is := one.(*ast.TypeSpec); is {
					found[spec.Name.Name] = spec
					d.comments[spec] = group.Doc.Text() + spec.Doc.Text()
				}
			}
		}
	}
	return found
}
