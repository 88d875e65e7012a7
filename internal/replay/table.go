package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// WriteTable prints the result for people. The writer keeps the error of writing.
func (r *Result) WriteTable(w display.Writer) {
	p := printer{w}
	p.summary(r)
	for i := range r.Policies {
		p.policy(&r.Policies[i])
	}
	if r.Suggestions != nil {
		p.suggestions(r)
	}
	p.log(r)
}

// printer prints the parts of a result.
type printer struct{ w display.Writer }

func (p printer) line(format string, values ...any) { p.w.Print(fmt.Sprintf(format, values...) + "\n") }

// table prints rows below titles, indented. The first columns stand to the right, as numbers do.
func (p printer) table(right int, titles []string, rows [][]string) {
	t := display.Table{Indent: "  "}
	for i, title := range titles {
		t.Columns = append(t.Columns, display.Column{Title: title, Right: i < right})
	}
	for _, row := range rows {
		t.Add(row...)
	}
	t.Write(p.w)
}

func (p printer) summary(r *Result) {
	if r.Requests == 0 {
		p.line("no requests")
		return
	}
	if text := r.NoAddresses.sentence(); text != "" {
		p.w.Print(display.Wrap(text, ""))
	}
	p.line("%s of %s, %s to %s", display.Counted(r.Requests, "request"), display.Counted(r.Clients, "client"), minute(r.First), minute(r.Last))
	p.line("%s denied (%s), of %s (%s)", deniedText(display.Count(r.Denied), r.DeniedOff)+" "+display.Noun(r.Denied, "request"), display.Percent(r.Denied, r.Requests),
		display.Counted(r.ClientsDenied, "client"), display.Percent(r.ClientsDenied, r.Clients))
	p.line("peak minute %s: %s, %s denied", minute(r.Peak.Begins), display.Counted(r.Peak.Requests, "request"), display.Count(r.Peak.Denied))
	for _, other := range []struct {
		count int64
		what  string
	}{{r.Unlimited, "met no policy"}, {r.Exempt, "of exempt clients"}, {r.Rejected, "refused for an empty key"}, {r.Unplayable, "could not be played"}} {
		if other.count > 0 {
			p.line("%s %s", display.Counted(other.count, "request"), other.what)
		}
	}
}

func (p printer) policy(r *PolicyResult) {
	p.line("")
	text := "policy " + r.Name + ": " + r.Sentence()
	if options := r.All(); len(options) > 0 {
		text += "; " + display.JoinOptions(options)
	}
	p.w.Print(display.Wrap(text, "  "))
	p.line("  %s, %s denied (%s); %s, %s denied (%s)",
		display.Counted(r.Requests, "request"), deniedText(display.Count(r.Denied), r.DeniedOff), display.Percent(r.Denied, r.Requests),
		display.Counted(r.Clients, "key"), display.Count(r.ClientsDenied), display.Percent(r.ClientsDenied, r.Clients))
	if r.Units != nil {
		p.units(r.Units)
	}
	var rows [][]string
	for i := range r.Worst {
		c := &r.Worst[i]
		rows = append(rows, []string{display.Count(c.Denied), display.Count(c.Requests), minute(c.FirstDenied), lasted(c.LongestLasted), display.EscapeShort(c.Key, 60)})
	}
	if len(rows) > 0 {
		p.table(2, []string{"DENIED", "OF", "FIRST DENIAL", "LONGEST", "KEY"}, rows)
	}
	if r.Running != nil {
		p.running(r.Running)
	}
	if r.Changes != nil {
		for _, text := range r.Changes.lines() {
			p.line("%s", text)
		}
	}
}

// log reports what was not read, skipped or warned of.
func (p printer) log(r *Result) {
	var notes []string
	if r.Log.Malformed > 0 {
		notes = append(notes, fmt.Sprintf("%s of %s could not be read, such as", display.Count(r.Log.Malformed), display.Counted(r.Log.Lines, "line")))
		notes = append(notes, exampleNotes(r.Log.MalformedExamples)...)
	}
	if len(r.Log.OtherExamples) > 0 {
		are := "are no requests"
		if r.Log.Other == 1 {
			are = "is no request"
		}
		notes = append(notes, fmt.Sprintf("%s of %s %s, such as", display.Count(r.Log.Other), display.Counted(r.Log.Lines, "line"), are))
		notes = append(notes, exampleNotes(r.Log.OtherExamples)...)
	}
	if r.Log.Late > 0 {
		notes = append(notes, fmt.Sprintf("requests that stood too far behind later ones to be sorted, and were played late: %s (by up to %s)",
			display.Count(r.Log.Late), r.Log.LatestBy.Round(time.Millisecond)))
	}
	for _, f := range r.Log.Files {
		switch fault := f.Fault(); {
		case f.Unread():
			notes = append(notes, fault)
		case fault != "":
			notes = append(notes, fault+"; the lines before count")
		}
	}
	notes = append(notes, r.Log.readings()...)
	if len(r.Skipped) > 0 {
		notes = append(notes, "skipped, because they need real requests: "+strings.Join(r.Skipped, ", "))
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

// exampleNotes are the first lines of different kinds, with the number of each.
func exampleNotes(examples []accesslog.Skipped) (notes []string) {
	for _, line := range examples {
		notes = append(notes, fmt.Sprintf("  %s: %s (%s): %s", line.Where, line.Reason, display.Counted(line.Lines, "line"), line.Text))
	}
	return notes
}

// deniedText returns a number of denials with how far it may be off.
func deniedText(denied string, off int64) string {
	if off == 0 {
		return denied
	}
	return denied + " ± " + display.Count(off)
}

func minute(t time.Time) string { return t.Format("2006-01-02 15:04") }

// lasted is how long a stretch of denials lasted: a single denial has no length.
func lasted(d time.Duration) string {
	switch {
	case d == 0:
		return "once"
	case d < time.Second:
		return "<1s"
	case d < time.Hour:
		return display.Compact(d.Round(time.Second))
	}
	return display.Compact(d.Round(time.Minute))
}
