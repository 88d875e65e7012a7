package report

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// reportLog is the part of the report about the files that were read.
type reportLog struct {
	Lede          string
	Files, Broken *reportTable
}

func newReportLog(l replay.LogReport) reportLog {
	page := reportLog{Lede: logSentence(l)}
	if len(l.Files) > 0 {
		page.Files = &reportTable{
			Caption: "Files that were read",
			Columns: []reportColumn{{"File", keys}, {"Format", words}, {"Lines", numbers}, {"Error", keys}},
		}
	}
	for _, f := range l.Files {
		failure := "none"
		if f.Error != "" {
			page.Files.Note = "The lines of a file before its error count."
			failure = sayName(f.Error)
		}
		page.Files.Rows = append(page.Files.Rows, []string{sayName(f.Name), sayName(f.Format), humanize.Count(f.Lines), failure})
	}
	if len(l.First5) > 0 {
		page.Broken = &reportTable{
			Caption: "The first lines that could not be read",
			Columns: []reportColumn{{"Where", keys}, {"Reason", keys}, {"Text", keys}},
		}
	}
	for _, b := range l.First5 {
		page.Broken.Rows = append(page.Broken.Rows, []string{sayName(b.Where), sayName(b.Reason), sayName(b.Text)})
	}
	return page
}

func wasWere(n int64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func logSentence(l replay.LogReport) string {
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
