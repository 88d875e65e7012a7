// Command goservers serves one framework: goservers FRAMEWORK PORT. It prints the versions first.
//
// The first element of a path is the way to read, the header X-Asked the name that is asked for.
package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// framework is one that can be served.
type framework struct {
	modules []string // whose versions are told, beside Go's
	serve   func(address string) error
}

var frameworks = map[string]framework{
	"net/http":  {[]string{"github.com/gorilla/schema", "github.com/go-chi/render"}, serveStandard},
	"gin":       {[]string{"github.com/gin-gonic/gin"}, serveGin},
	"echo":      {[]string{"github.com/labstack/echo/v5"}, serveEcho},
	"fiber":     {[]string{"github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp"}, serveFiber},
	"hertz":     {[]string{"github.com/cloudwego/hertz"}, serveHertz},
	"documents": {documentModules, serveDocuments},
}

func main() {
	chosen, ok := frameworks[os.Args[1]]
	if !ok {
		fmt.Fprintln(os.Stderr, "no framework is called", os.Args[1])
		os.Exit(2)
	}
	fmt.Println(versions(chosen.modules))
	if err := chosen.serve("127.0.0.1:" + os.Args[2]); err != nil {
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
				name := strings.TrimPrefix(path, "github.com/")
				told = append(told, name+" "+strings.TrimPrefix(module.Version, "v"))
			}
		}
	}
	return strings.Join(told, ", ")
}

// serveReaders serves ways to read on net/http.
func serveReaders(address string, ways map[string]func(r *http.Request, asked string) (string, error)) error {
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read, ok := ways[r.URL.Path[1:]]
		if !ok {
			http.NotFound(w, r)
			return
		}
		text, err := read(r, r.Header.Get("X-Asked"))
		if err != nil {
			http.Error(w, refusal(err), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, text)
	}))
}
