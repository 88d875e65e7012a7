package replay

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// WriteTable prints the result for people, in 80 columns where keys are not longer than usual.
func (r *Result) WriteTable(w io.Writer) error {
	p := &printer{w: w}
	p.summary(r)
	for i := range r.Policies {
		p.policy(&r.Policies[i])
	}
	if r.Suggestions != nil {
		p.suggestions(r.Suggestions)
	}
	p.log(r)
	return p.err
}

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, values ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", values...)
	}
}

func (p *printer) summary(r *Result) {
	if r.Requests == 0 {
		p.line("no requests")
		return
	}
	p.line("%s of %s, %s to %s", many(r.Requests, "request"), many(int64(r.Clients), "client"), minute(r.First), minute(r.Last))
	p.line("%s denied (%s), of %s (%s)", many(r.Denied, "request"), percent(r.Denied, r.Requests),
		many(int64(r.ClientsDenied), "client"), percent(int64(r.ClientsDenied), int64(r.Clients)))
	p.line("peak minute %s: %s, %s denied", minute(r.Peak.Begins), many(r.Peak.Requests, "request"), number(r.Peak.Denied))
	for _, other := range []struct {
		count int64
		what  string
	}{{r.Unlimited, "met no policy"}, {r.Exempt, "of exempt clients"}, {r.Rejected, "refused for an empty key"}, {r.Unplayable, "could not be played"}} {
		if other.count > 0 {
			p.line("%s %s", many(other.count, "request"), other.what)
		}
	}
}

func (p *printer) policy(r *PolicyResult) {
	p.line("")
	limit := r.LimitText()
	if r.LimitFrom != "" {
		limit = "limit " + limit + ","
	}
	settings := append([]string{limit + " per " + length(r.Window), r.Algorithm}, r.Options()...)
	p.line("policy %s: %s", r.Name, strings.Join(settings, ", "))
	p.line("  %s, %s denied (%s); %s, %s denied (%s)", many(r.Requests, "request"), number(r.Denied), percent(r.Denied, r.Requests),
		many(int64(r.Clients), "key"), number(int64(r.ClientsDenied)), percent(int64(r.ClientsDenied), int64(r.Clients)))
	if len(r.Worst) == 0 {
		return
	}
	rows := [][]string{{"DENIED", "OF", "FIRST DENIAL", "LONGEST", "KEY"}}
	for i := range r.Worst {
		c := &r.Worst[i]
		rows = append(rows, []string{number(c.Denied), number(c.Requests), minute(c.FirstDenied), span(c.LongestLasted), accesslog.Printable(c.Key, 60)})
	}
	p.table(rows, 2)
}

// table prints rows with so many columns of numbers on the left, aligned.
func (p *printer) table(rows [][]string, right int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var text strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i < right {
				text.WriteString("  " + gap + cell)
			} else {
				text.WriteString("  " + cell + gap)
			}
		}
		p.line("%s", strings.TrimRight(text.String(), " "))
	}
}

// log tells of what was not read, or left out.
func (p *printer) log(r *Result) {
	var notes []string
	if r.Log.Malformed > 0 {
		notes = append(notes, fmt.Sprintf("%s of %s could not be read, such as", number(r.Log.Malformed), many(r.Log.Lines, "line")))
		for _, bad := range r.Log.First5 {
			notes = append(notes, fmt.Sprintf("  %s: %s: %s", bad.Where, bad.Reason, bad.Text))
		}
	}
	if r.Log.Late > 0 {
		notes = append(notes, fmt.Sprintf("requests that stood too far behind later ones to be sorted, and were played late: %s (by up to %s)", number(r.Log.Late), r.Log.LatestBy.Round(time.Millisecond)))
	}
	for _, f := range r.Log.Files {
		if f.Error != "" {
			notes = append(notes, fmt.Sprintf("%s: %s; what was read before counts", accesslog.Printable(f.Name, 200), accesslog.Printable(f.Error, 200)))
		}
	}
	if len(r.Skipped) > 0 {
		notes = append(notes, "left out, because only real requests can pass them: "+strings.Join(r.Skipped, ", "))
	}
	for _, warning := range r.Warnings {
		notes = append(notes, "warning: "+warning)
	}
	if len(notes) > 0 {
		p.line("")
	}
	for _, note := range notes {
		p.line("%s", note)
	}
}

func number(n int64) string { return humanize.Comma(n) }

// many is a number with its noun.
func many(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return number(n) + " " + noun
}

func minute(t time.Time) string { return t.Format("2006-01-02 15:04") }

// percent is a share of a whole, with enough digits to tell a little from nothing.
func percent(part, whole int64) string {
	switch share := 100 * float64(part) / float64(max(1, whole)); {
	case part == 0 || part == whole:
		return fmt.Sprintf("%.0f %%", share)
	case share < 0.1:
		return fmt.Sprintf("%.3f %%", share)
	default:
		return fmt.Sprintf("%.1f %%", share)
	}
}

// span is a length of time in the two largest units that matter.
func span(d time.Duration) string {
	switch {
	case d == 0:
		return "once"
	case d < time.Second:
		return "<1s"
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}
