// Command goservers serves one framework: goservers FRAMEWORK PORT. It prints the versions first.
//
// The first element of a path is the way to read, the header X-Asked the name that is asked for.
package main

import (
	"fmt"
	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/goservers/framework"
)

var frameworks = map[string]framework.Framework{
	"net/http":  {Modules: []string{"github.com/gorilla/schema", "github.com/go-chi/render"}, Serve: serveStandard},
	"gin":       {Modules: []string{"github.com/gin-gonic/gin"}, Serve: serveGin},
	"echo":      {Modules: []string{"github.com/labstack/echo/v5"}, Serve: serveEcho},
	"fiber":     {Modules: []string{"github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp"}, Serve: serveFiber},
	"hertz":     {Modules: []string{"github.com/cloudwego/hertz"}, Serve: serveHertz},
	"documents": {Modules: documentModules, Serve: serveDocuments},
}

func main() { framework.Main(frameworks) }

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
