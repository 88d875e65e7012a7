package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// reportLog is the part of the report about the files that were read.
type reportLog struct {
	Lede          string
	Readings      []string
	Files, Broken *reportTable
	Others        *reportTable
}

func newReportLog(l readReport) reportLog {
	page := reportLog{Lede: logSentence(l), Readings: sayNames(l.readings())}
	page.Files = tableOf("Files that were read",
		[]reportColumn{{"File", keys}, {"Format", words}, {"Lines", numbers}, {"Error", keys}},
		l.Files, func(f fileReport) []string {
			return []string{sayName(f.Name), sayName(f.Format), display.Count(f.Lines), sayName(cmp.Or(f.Error, "none"))}
		})
	if slices.ContainsFunc(l.Files, func(f fileReport) bool { return hasFault(f) && !f.Unread() }) {
		page.Files.Note = "The lines of a file before its error count."
	}
	page.Broken = skippedTable("The first lines of kinds that could not be read", l.MalformedExamples)
	page.Others = skippedTable("The first lines of kinds that are no requests", l.OtherExamples)
	return page
}

func skippedTable(caption string, examples []accesslog.Skipped) *reportTable {
	return tableOf(caption, []reportColumn{{"Where", keys}, {"Kind", keys}, {"Lines", numbers}, {"Text", keys}},
		examples, func(m accesslog.Skipped) []string {
			return []string{sayName(m.Where), sayName(m.Reason), display.Count(m.Lines), sayName(m.Text)}
		})
}

func hasFault(f fileReport) bool { return f.Error != "" }

func wasWere(n int64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func logSentence(l readReport) string {
	text := fmt.Sprintf("%s read from %s. ", sayCounted(l.Lines, "line"), sayCounted(len(l.Files), "file"))
	switch {
	case l.Lines == 0:
	case l.Malformed == 0:
		text += "All of them could be read."
	default:
		text += fmt.Sprintf("%s (%s) could not be read and %s left out.", sayCounted(l.Malformed, "line"), sayPercent(l.Malformed, l.Lines), wasWere(l.Malformed))
	}
	if l.Other > 0 {
		text += fmt.Sprintf(" %s of other kinds, such as messages of the server, %s skipped.", sayCounted(l.Other, "line"), wasWere(l.Other))
	}
	if l.Late > 0 {
		text += fmt.Sprintf(" %s stood too far behind later ones to be sorted, by up to %s, and %s played late.", sayCounted(l.Late, "request"), sayDuration(l.LatestBy), wasWere(l.Late))
	}
	return text
}
