// Package report draws the result of a replay as one HTML page.
package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// reportFiles are the templates of the report and its style sheet, which stands in the page itself.
//
//go:embed *.gohtml report.css
var reportFiles embed.FS

// Write writes a result as one HTML file that needs nothing else: no script, no font, no
// picture from elsewhere. The template escapes all text, and the page's own policy forbids the browser
// to load or to run anything even so, because what stands in a log was written by strangers.
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
