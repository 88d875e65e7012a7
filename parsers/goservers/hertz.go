package main

import (
	"context"
	"io"
	"net/http"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/hlog"
)

// serveHertz serves Hertz.
func serveHertz(address string) error {
	hlog.SetOutput(io.Discard)
	h := server.New(server.WithHostPorts(address))
	tell := func(c *app.RequestContext, text string, err error) {
		if err != nil {
			c.String(http.StatusBadRequest, "%s", refusal(err))
			return
		}
		c.String(http.StatusOK, "%s", text)
	}
	asked := func(c *app.RequestContext) string { return string(c.GetHeader("X-Asked")) }
	h.POST("/PostForm", func(_ context.Context, c *app.RequestContext) {
		value, ok := c.GetPostForm(asked(c))
		if !ok {
			tell(c, "none", nil)
			return
		}
		tell(c, answer(value), nil)
	})
	h.POST("/bind", func(_ context.Context, c *app.RequestContext) {
		var form Form
		err := c.BindForm(&form)
		tell(c, form.of(asked(c)), err)
	})
	h.POST("/bind-json", func(_ context.Context, c *app.RequestContext) {
		var document Document
		err := c.BindJSON(&document)
		tell(c, document.of(asked(c)), err)
	})
	return h.Run()
}
