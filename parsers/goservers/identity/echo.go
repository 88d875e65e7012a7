package main

import (
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
)

func echoRouter() http.Handler {
	router := echo.New()
	answerWith := func(read func(c *echo.Context) answer) echo.HandlerFunc {
		return func(c *echo.Context) error { return c.JSON(http.StatusOK, read(c)) }
	}
	router.Any("/r", answerWith(func(c *echo.Context) answer {
		a := answer{"host": c.Request().Host, "key": c.Request().Header.Get("X-Api-Key"), "query": c.QueryParam("token")}
		if cookie, err := c.Cookie("session"); err == nil {
			a["cookie"] = cookie.Value
		}
		return a
	}))
	const kept = "credential"
	router.Any("/token", answerWith(func(c *echo.Context) answer { return answer{"token KeyAuth": c.Get(kept)} }),
		middleware.KeyAuth(func(c *echo.Context, key string, _ middleware.ExtractorSource) (bool, error) {
			c.Set(kept, key)
			return true, nil
		}))
	router.Any("/basic", answerWith(func(c *echo.Context) answer { return answer{"basic BasicAuth": c.Get(kept)} }),
		middleware.BasicAuth(func(c *echo.Context, user, password string) (bool, error) {
			c.Set(kept, user+"|"+password)
			return true, nil
		}))
	router.Any("/login", answerWith(func(*echo.Context) answer { return answer{"route": "login"} }))
	router.Any("/api/items", answerWith(func(*echo.Context) answer { return answer{"route": "items"} }))
	router.Any("/users/:id", answerWith(func(c *echo.Context) answer { return answer{"route": "user " + c.Param("id")} }))
	return router
}
