package replay

import (
	"embed"
	"fmt"
	"html/template"
	"io"
)

// reportFiles are the templates of the report and its style sheet, which stands in the page itself.
//
//go:embed report*.gohtml report.css
var reportFiles embed.FS

// WriteReport writes the result as one HTML file that needs nothing else: no script, no font, no
// picture from elsewhere. The template escapes all text, and the page's own policy forbids the browser
// to load or to run anything even so, because what stands in a log was written by strangers.
func (r *Result) WriteReport(w io.Writer) error {
	page, err := template.ParseFS(reportFiles, "report*.gohtml", "report.css")
	if err != nil {
		return fmt.Errorf("reading the report's template: %w", err)
	}
	if err := page.ExecuteTemplate(w, "report.gohtml", newReportPage(r)); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
