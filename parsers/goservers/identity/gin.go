package main

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

func ginRouter() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Any("/r", func(c *gin.Context) {
		a := answer{"host": c.Request.Host}
		if key := c.GetHeader("X-Api-Key"); key != "" {
			a["key"] = key
		}
		if cookie, err := c.Cookie("session"); err == nil {
			a["cookie"] = cookie
		}
		if token, ok := c.GetQuery("token"); ok {
			a["query"] = token
		}
		c.JSON(http.StatusOK, a)
	})
	router.Any("/basic", gin.BasicAuth(gin.Accounts{"alice": "pw"}), func(c *gin.Context) {
		c.JSON(http.StatusOK, answer{"basic BasicAuth": c.GetString(gin.AuthUserKey) + "|pw"})
	})
	router.Any("/login", func(c *gin.Context) { c.JSON(http.StatusOK, answer{"route": "login"}) })
	router.Any("/api/items", func(c *gin.Context) { c.JSON(http.StatusOK, answer{"route": "items"}) })
	router.Any("/users/:id", func(c *gin.Context) { c.JSON(http.StatusOK, answer{"route": "user " + c.Param("id")}) })
	return router
}
