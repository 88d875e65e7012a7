package main

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// serveGin serves gin.
func serveGin(address string) error {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	tell := func(c *gin.Context, text string, err error) {
		if err != nil {
			c.String(http.StatusBadRequest, "%s", refusal(err))
			return
		}
		c.String(http.StatusOK, "%s", text)
	}
	engine.POST("/bind", func(c *gin.Context) {
		var form Form
		err := c.ShouldBind(&form)
		tell(c, form.of(c.GetHeader("X-Asked")), err)
	})
	engine.POST("/PostForm", func(c *gin.Context) {
		asked := c.GetHeader("X-Asked")
		value, ok := c.GetPostForm(asked)
		if asked == "user[email]" {
			value, ok = c.PostFormMap("user")["email"]
		}
		if !ok {
			tell(c, "none", nil)
			return
		}
		tell(c, answer(value), nil)
	})
	engine.POST("/json", func(c *gin.Context) {
		var document Document
		err := c.ShouldBindJSON(&document)
		tell(c, document.of(c.GetHeader("X-Asked")), err)
	})
	engine.POST("/bind-json", func(c *gin.Context) {
		var document Document
		err := c.ShouldBind(&document)
		tell(c, document.of(c.GetHeader("X-Asked")), err)
	})
	return engine.Run(address)
}
