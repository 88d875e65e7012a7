package main

import "github.com/gofiber/fiber/v3"

// serveFiber serves Fiber, whose forms are fasthttp's.
func serveFiber(address string) error {
	app := fiber.New(fiber.Config{Immutable: true})
	tell := func(c fiber.Ctx, text string, err error) error {
		if err != nil {
			return c.Status(fiber.StatusBadRequest).SendString(refusal(err))
		}
		return c.SendString(text)
	}
	app.Post("/FormValue", func(c fiber.Ctx) error {
		const absent = "\x00absent"
		value := c.FormValue(c.Get("X-Asked"), absent)
		if value == absent {
			return tell(c, "none", nil)
		}
		return tell(c, answer(value), nil)
	})
	app.Post("/PostArgs", func(c fiber.Ctx) error {
		value := c.Request().PostArgs().Peek(c.Get("X-Asked"))
		if value == nil {
			return tell(c, "none", nil)
		}
		return tell(c, answer(string(value)), nil)
	})
	app.Post("/bind", func(c fiber.Ctx) error {
		var form Form
		err := c.Bind().Body(&form)
		return tell(c, form.of(c.Get("X-Asked")), err)
	})
	app.Post("/bind-json", func(c fiber.Ctx) error {
		var document Document
		err := c.Bind().JSON(&document)
		return tell(c, document.of(c.Get("X-Asked")), err)
	})
	return app.Listen(address, fiber.ListenConfig{DisableStartupMessage: true})
}
