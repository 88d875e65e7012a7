package replay

import (
	"embed"
	"fmt"
	"html/template"
	"io"
)

// reportFiles are the templates of the report and its style sheet, which becomes part of the page.
//
//go:embed *.gohtml report.css
var reportFiles embed.FS

// ReportBegin is how each report begins.
const ReportBegin = "<!DOCTYPE html>"

// WriteReport writes a result as one HTML file that needs nothing else: no script, font or picture from elsewhere. The
// text of a log comes from strangers. The template escapes all text, and the page's own policy forbids the
// browser to load or run anything.
func WriteReport(w io.Writer, r *Result) error {
	page, err := template.ParseFS(reportFiles, "*.gohtml", "report.css")
	if err != nil {
		return fmt.Errorf("reading the report's template: %w", err)
	}
	if err := page.ExecuteTemplate(w, "report.gohtml", newReportPage(r)); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
