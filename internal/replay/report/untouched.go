package report

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// tableLimits is the largest number of limits in a table.
const tableLimits = 70

// untouchedSentence returns the limits that leave almost all clients untouched.
func untouchedSentence(l replay.Ladder) string {
	var parts []string
	for _, u := range []struct {
		percent string
		limit   int64
	}{{"99", l.Untouched99}, {"99.9", l.Untouched999}, {"100", l.Untouched100}} {
		if u.limit > 0 {
			parts = append(parts, humanize.Count(u.limit)+" leaves "+u.percent+noBreak+"% of the clients untouched")
		}
	}
	if len(parts) == 0 {
		return "None of the limits leaves 99" + noBreak + "% of the clients untouched."
	}
	return "A limit of " + strings.Join(parts, ", ") + "."
}

// curveTable returns the numbers of one ladder.
func curveTable(s *replay.Suggestions, l replay.Ladder) reportTable {
	t := reportTable{
		Caption: "Limits " + perWindow(s) + " under " + sayName(l.Algorithm),
		Columns: []reportColumn{{"Limit", numbers}, {"Requests denied", numbers}, {"Percent", numbers}, {"Clients denied", numbers}, {"Percent", numbers}},
	}
	limits, thinned := thinRows(l.Limits)
	if thinned {
		t.Note = "The table leaves some limits out to stay readable; the chart has all."
	}
	for _, r := range limits {
		t.Rows = append(t.Rows, []string{humanize.Count(r.Limit), humanize.Count(r.Denied), sayPercent(r.Denied, s.Requests),
			humanize.Count(r.ClientsDenied), sayPercent(r.ClientsDenied, s.Clients)})
	}
	return t
}

// thinRows drops rows evenly until there are few enough. The first and the last stay.
func thinRows[R any](rows []R) (some []R, thinned bool) {
	if len(rows) <= tableLimits {
		return rows, false
	}
	for i := range tableLimits {
		some = append(some, rows[i*(len(rows)-1)/(tableLimits-1)])
	}
	return some, true
}

// untouchedTable compares the algorithms by the limits that they need.
func untouchedTable(s *replay.Suggestions) reportTable {
	t := reportTable{
		Caption: "Smallest limit per " + sayWindow(s.Window, s.Calendar) + " that leaves that percentage of the clients untouched",
		Columns: []reportColumn{{"Algorithm", words}, {"99" + noBreak + "%", numbers}, {"99.9" + noBreak + "%", numbers}, {"100" + noBreak + "%", numbers}},
	}
	for _, l := range s.Ladders {
		row := []string{sayName(l.Algorithm)}
		for _, limit := range []int64{l.Untouched99, l.Untouched999, l.Untouched100} {
			if limit > 0 {
				row = append(row, humanize.Count(limit))
			} else {
				row = append(row, nothing)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// differenceTable compares the sliding window counter with the log that it stands for.
func differenceTable(s *replay.Suggestions) reportTable {
	t := reportTable{
		Caption: "Decisions of sliding_window_counter that differ from sliding_window_log",
		Columns: []reportColumn{{"Limit", numbers}, {"Denied, though the log admits", numbers}, {"Percent of requests", numbers},
			{"Admitted, though the log denies", numbers}, {"Percent of requests", numbers}},
	}
	differences, thinned := thinRows(s.Differences)
	if thinned {
		t.Note = "The table leaves some limits out to stay readable."
	}
	for _, d := range differences {
		t.Rows = append(t.Rows, []string{humanize.Count(d.Limit), humanize.Count(d.DeniedWrongly), sayPercent(d.DeniedWrongly, s.Requests),
			humanize.Count(d.AdmittedWrongly), sayPercent(d.AdmittedWrongly, s.Requests)})
	}
	return t
}
