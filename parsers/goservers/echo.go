package main

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// serveEcho serves Echo.
func serveEcho(address string) error {
	e := echo.New()
	tell := func(c *echo.Context, text string, err error) error {
		if err != nil {
			return c.String(http.StatusBadRequest, refusal(err))
		}
		return c.String(http.StatusOK, text)
	}
	e.POST("/FormValue", func(c *echo.Context) error {
		asked := c.Request().Header.Get("X-Asked")
		_ = c.FormValue(asked) // parses the form
		return tell(c, first(c.Request().Form[asked]), nil)
	})
	e.POST("/FormValues", func(c *echo.Context) error {
		values, err := c.FormValues()
		return tell(c, first(values[c.Request().Header.Get("X-Asked")]), err)
	})
	e.POST("/bind", func(c *echo.Context) error {
		var form Form
		err := c.Bind(&form)
		return tell(c, form.of(c.Request().Header.Get("X-Asked")), err)
	})
	e.POST("/bind-json", func(c *echo.Context) error {
		var document Document
		err := c.Bind(&document)
		return tell(c, document.of(c.Request().Header.Get("X-Asked")), err)
	})
	return http.ListenAndServe(address, e)
}
