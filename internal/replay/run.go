package replay

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// RunOptions are what a replay finds out.
type RunOptions struct {
	// Worst is the number of worst keys listed for each policy.
	Worst int

	// Suggest, if not nil, receives every request that meets the first policy.
	Suggest *Suggester

	// Again, if not nil, returns another engine of the same configuration. It plays requests in whole seconds at the start of
	// their second, where that matters, to tell how far the result may be off.
	Again func() (Engine, error)
}

// Run plays a log through an engine and returns the result. Its errors are those of reading, and of limits that cannot be
// tried.
func Run(log *accesslog.Reader, engine Engine, o RunOptions) (*Result, error) {
	policies := engine.Policies()
	tally := newTally(policies)
	if o.Suggest != nil {
		o.Suggest.busiest = o.Worst
		o.Suggest.leaveOut(&policies[0])
	}
	var second *secondStarts
	for {
		entry, err := log.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if tally.result.Requests == 0 && o.Again != nil && log.Coarse() && mattersWithinSeconds(policies) {
			if second, err = newSecondStarts(o.Again, len(policies)); err != nil {
				return nil, err
			}
		}
		second.play(entry)
		decision := engine.Play(entry)
		tally.add(entry, decision)
		if o.Suggest != nil {
			suggest(o.Suggest, entry, decision)
		}
	}
	result := tally.finish(o.Worst)
	second.finish(result)
	result.Skipped = append([]string{}, engine.Skipped()...) // a list even if empty
	if o.Suggest != nil {
		var err error
		if result.Suggestions, err = o.Suggest.finish(); err != nil {
			return nil, fmt.Errorf("trying other limits: %w", err)
		}
	}
	summary := log.Summary()
	result.Log = logReport(&summary)
	result.Warnings = append(warnings(result, &summary, engine.KeyHeaders()), engine.Warnings()...)
	for i := range tally.policies {
		if text := tally.policies[i].untimedSentence(); text != "" {
			result.Warnings = append(result.Warnings, text)
		}
	}
	return result, nil
}

// suggest adds the requests that met the first policy, of any decision.
func suggest(s *Suggester, e *accesslog.Entry, v *Decision) {
	for i := range v.Policies {
		d := &v.Policies[i]
		if d.Policy != 0 || d.LeftOut || d.Looked {
			continue
		}
		s.add(d.Key, e.Time, e.Ends, d.Weight, d.afterwards())
	}
}

// logReport returns the report on the logs.
func logReport(s *accesslog.Summary) readReport {
	total := s.Total()
	report := readReport{
		Files: []fileReport{}, Lines: total.Lines, Malformed: total.Malformed,
		Other: total.Other, Late: s.Late, LatestBy: s.LatestBy,
	}
	for _, kind := range s.Skipped {
		if kind.Other {
			report.OtherExamples = append(report.OtherExamples, kind)
		} else {
			report.MalformedExamples = append(report.MalformedExamples, kind)
		}
	}
	report.OtherExamples = report.OtherExamples[:min(shownKinds, len(report.OtherExamples))]
	report.MalformedExamples = report.MalformedExamples[:min(shownKinds, len(report.MalformedExamples))]
	for i := range s.Files {
		f := &s.Files[i]
		file := fileReport{Name: f.Name, Format: formatOf(f), Lines: f.Lines, Requests: f.Requests(), Client: f.Client}
		if f.Clock != nil {
			file.Time = f.Clock.String()
		}
		if fault := f.Fault(); fault != nil {
			file.Error = fault.Error()
		}
		report.Files = append(report.Files, file)
	}
	return report
}

// formatOf returns the format of most lines of a file, and how it is packed.
func formatOf(f *accesslog.FileReport) string {
	if f.Packing != "plain" && f.Packing != "" {
		return f.Format() + ", " + f.Packing
	}
	return f.Format()
}

// warnings returns sentences about what makes the result less than exact.
func warnings(r *Result, s *accesslog.Summary, keyHeaders []string) []string {
	sentences := append([]string{}, s.Warnings(keyHeaders...)...)
	if text := emptyKeys(r.Policies); text != "" {
		sentences = append(sentences, text)
	}
	if r.Unplayable > 0 {
		sentences = append(sentences, fmt.Sprintf("without a URL that a server accepts, counted as passing: %s", display.Counted(r.Unplayable, "request")))
	}
	return sentences
}

// emptyKeys returns one sentence about all policies that had an empty key: many policies may use a user that
// the log does not have.
func emptyKeys(policies []PolicyResult) string {
	const named = 3
	var keys []string
	for i := range policies {
		if p := &policies[i]; p.EmptyKeys > 0 {
			keys = append(keys, fmt.Sprintf("%s of policy %s for %s", display.EscapeShort(p.Key(), shownPlaceholder), p.Name, display.Counted(p.EmptyKeys, "request")))
		}
	}
	if more := len(keys) - named; more > 0 {
		keys = append(keys[:named], fmt.Sprintf("and of %d more", more))
	}
	if len(keys) == 0 {
		return ""
	}
	return "keys that are empty in this log: " + strings.Join(keys, ", ") + "; if the log lacks them, the real limits count otherwise"
}
