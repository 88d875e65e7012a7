// Package highlighting takes the place of the one that highlights code in Caddy's templates: it leaves code plain.
package highlighting

import (
	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/yuin/goldmark"
)

// Option is an option of [NewHighlighting].
type Option struct{}

type plain struct{}

// Extend changes nothing.
func (plain) Extend(goldmark.Markdown) {}

// NewHighlighting returns an extension of Markdown that highlights nothing.
func NewHighlighting(...Option) goldmark.Extender { return plain{} }

// WithFormatOptions ignores how to highlight.
func WithFormatOptions(...html.Option) Option { return Option{} }
