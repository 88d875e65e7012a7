// Command identity serves one framework: identity FRAMEWORK PORT. It prints the versions first.
//
// /r answers with an object of what readers have of the request, other paths with what a router takes them for.
package main

import (
	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/goservers/framework"
)

const jwtModule = "github.com/golang-jwt/jwt/v5"

var frameworks = map[string]framework.Framework{
	"net/http": {Modules: []string{jwtModule}, Serve: served(standard)},
	"chi":      {Modules: []string{"github.com/go-chi/chi/v5"}, Serve: served(chiRouter)},
	"mux":      {Modules: []string{"github.com/gorilla/mux"}, Serve: served(muxRouter)},
	"gin":      {Modules: []string{"github.com/gin-gonic/gin"}, Serve: served(ginRouter)},
	"echo":     {Modules: []string{"github.com/labstack/echo/v5"}, Serve: served(echoRouter)},
	"fiber":    {Modules: []string{"github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp"}, Serve: serveFiber},
}

// served returns what serves a handler.
func served(handler func() http.Handler) func(address string) error {
	return func(address string) error { return http.ListenAndServe(address, handler()) }
}

func main() { framework.Main(frameworks) }
