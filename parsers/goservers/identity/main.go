// Command identity serves one framework: identity FRAMEWORK PORT. It prints the versions first.
//
// /r answers with an object of what readers have of the request, other paths with what a router takes them for.
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

const jwtModule = "github.com/golang-jwt/jwt/v5"

var frameworks = map[string]framework{
	"net/http": {[]string{jwtModule}, served(standard)},
	"chi":      {[]string{"github.com/go-chi/chi/v5"}, served(chiRouter)},
	"mux":      {[]string{"github.com/gorilla/mux"}, served(muxRouter)},
	"gin":      {[]string{"github.com/gin-gonic/gin"}, served(ginRouter)},
	"echo":     {[]string{"github.com/labstack/echo/v5"}, served(echoRouter)},
	"fiber":    {[]string{"github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp"}, serveFiber},
}

// served returns what serves a handler.
func served(handler func() http.Handler) func(address string) error {
	return func(address string) error { return http.ListenAndServe(address, handler()) }
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
				told = append(told, strings.TrimPrefix(path, "github.com/")+" "+strings.TrimPrefix(module.Version, "v"))
			}
		}
	}
	return strings.Join(told, ", ")
}
