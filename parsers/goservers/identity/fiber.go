package main

import (
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/extractors"
	"github.com/gofiber/fiber/v3/middleware/basicauth"
	"github.com/gofiber/fiber/v3/middleware/keyauth"
)

func serveFiber(address string) error {
	app := fiber.New()
	app.All("/r", func(c fiber.Ctx) error {
		return c.JSON(answer{
			"host": c.Host(), "host Hostname": c.Hostname(), "key": c.Get("X-Api-Key"), "cookie": c.Cookies("session"), "query": c.Query("token"),
		})
	})
	app.All("/token", keyauth.New(keyauth.Config{
		Extractor: extractors.FromAuthHeader("Bearer"), Validator: func(fiber.Ctx, string) (bool, error) { return true, nil },
	}), func(c fiber.Ctx) error { return c.JSON(answer{"token keyauth": keyauth.TokenFromContext(c)}) })
	login := ""
	app.All("/basic", basicauth.New(basicauth.Config{Authorizer: func(user, password string, _ fiber.Ctx) bool {
		login = user + "|" + password
		return true
	}}), func(c fiber.Ctx) error { return c.JSON(answer{"basic basicauth": login}) })
	app.All("/login", func(c fiber.Ctx) error { return c.JSON(answer{"route": "login"}) })
	app.All("/api/items", func(c fiber.Ctx) error { return c.JSON(answer{"route": "items"}) })
	app.All("/users/:id", func(c fiber.Ctx) error { return c.JSON(answer{"route": "user " + c.Params("id")}) })
	return app.Listen(address, fiber.ListenConfig{DisableStartupMessage: true})
}
