// Package report draws the result of a replay as one HTML page.
package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// reportFiles are the templates of the report and its style sheet, which becomes part of the page.
//
//go:embed *.gohtml report.css
var reportFiles embed.FS

// Begin is how each report begins.
const Begin = "<!DOCTYPE html>"

// Write writes a result as one HTML file that needs nothing else: no script, font or picture from elsewhere. The
// text of a log comes from strangers. The template escapes all text, and the page's own policy forbids the
// browser to load or run anything.
func Write(w io.Writer, r *replay.Result) error {
	page, err := template.ParseFS(reportFiles, "*.gohtml", "report.css")
	if err != nil {
		return fmt.Errorf("reading the report's template: %w", err)
	}
	if err := page.ExecuteTemplate(w, "report.gohtml", newReportPage(r)); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
