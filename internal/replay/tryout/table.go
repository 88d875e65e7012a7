package tryout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// WriteTable writes the report for people.
func (r *Report) WriteTable(w display.Writer) {
	t := &display.Table{Columns: []display.Column{
		{Title: "POLICY"}, {Title: "SITE"}, {Title: "REFUSED"}, {Title: "FREE AGAIN"}, {Title: "TEN AT ONCE"}, {Title: "ANOTHER CLIENT"},
		{Title: "OTHER SPELLINGS"},
	}}
	sites, mistakes, unplayed := map[string]bool{}, 0, 0
	for i := range r.Policies {
		p := &r.Policies[i]
		if mistakes += len(p.Findings); p.NotPlayed != "" {
			unplayed++
		} else {
			sites[p.Site] = true
		}
	}
	for i := range r.Policies {
		p := &r.Policies[i]
		site := p.Site
		if len(sites) < 2 {
			site = ""
		}
		switch {
		case p.NotPlayed != "":
			t.Add(p.Name, site, "not played", "", "", "", "")
		case p.RefusedAfter < 0:
			t.Add(p.Name, site, "never", "", "", "", "")
		default:
			t.Add(p.Name, site, "after "+display.Count(p.RefusedAfter), p.freeText(), fmt.Sprintf("%d pass", p.AtOnce), p.otherText(),
				p.Spellings.text())
		}
	}
	t.Write(w)
	for i := range r.Policies {
		r.Policies[i].writeTexts(w)
	}
	played := len(r.Policies) - unplayed
	w.Print(fmt.Sprintf("\n%s in %s; %s not played\n", display.Counted(mistakes, "mistake"), policies(played), policies(unplayed)))
}

// policies writes a number of policies.
func policies(n int) string {
	if n == 1 {
		return "1 policy"
	}
	return display.Count(n) + " policies"
}

// freeText says after how long a refused client is free again.
func (p *PlayedPolicy) freeText() string {
	switch p.FreeWhen {
	case whenRequestEnds:
		return "when one ends"
	case whenNever:
		return whenNever
	}
	text := "in " + display.Duration(time.Duration(p.FreeAfter))
	switch {
	case p.BannedAt == 1:
		return "banned for " + display.Duration(time.Duration(p.BannedFor))
	case p.BannedFor > 0:
		text += fmt.Sprintf("; banned for %s by refusal %d", display.Duration(time.Duration(p.BannedFor)), p.BannedAt)
	}
	return text
}

func (p *PlayedPolicy) otherText() string {
	return map[string]string{"own": "own quota", "same": "same quota", "none": "not counted"}[p.Other]
}

// text says what became of the spellings.
func (c SpellingCounts) text() string {
	if c.all() == 0 {
		return "-"
	}
	var parts []string
	for _, part := range []struct {
		times int
		text  string
	}{
		{c.Same, "same quota"}, {c.Refused, "refused"}, {c.Unanswered, "not answered"}, {c.Other, "OTHER QUOTA"}, {c.Uncounted, "NOT COUNTED"},
	} {
		if part.times > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.times, part.text))
		}
	}
	return strings.Join(parts, ", ")
}

// writeTexts writes what is wrong with a policy, and what is to be known about its numbers.
func (p *PlayedPolicy) writeTexts(w display.Writer) {
	block := display.Block{Title: p.Name}
	if p.Limit != "" {
		block.Title += ": " + p.Limit
	}
	if p.Request != "" {
		block.Add("played", p.Request+p.statusText())
	}
	if p.NotPlayed != "" {
		block.Add("not played", p.NotPlayed)
	}
	if p.NotPlayed == "" && p.RefusedAfter < 0 {
		block.AddMarked("never refused", "no request was refused: the limit is above what can be played, "+
			"or count_if counts no response that was made up")
	}
	for i := range p.Findings {
		block.AddMarked("mistake", p.Findings[i].text())
	}
	for _, note := range p.Notes {
		block.Add("note", note)
	}
	w.Print("\n")
	block.Write(w)
}

// statusText says which responses count.
func (p *PlayedPolicy) statusText() string {
	switch {
	case p.Counts > 0 && p.Ignores > 0:
		return fmt.Sprintf(", answered with %d, which counts; %d does not", p.Counts, p.Ignores)
	case p.Counts > 0:
		return fmt.Sprintf(", answered with %d, which counts", p.Counts)
	}
	return ""
}

// text says what is wrong, in a sentence.
func (f *Finding) text() string {
	text := f.Spelling + " " + f.Effect
	if f.Times > 1 {
		text += fmt.Sprintf(" (and %s)", display.Counted(f.Times-1, "more spelling"))
	}
	switch names := f.serverNames(); {
	case len(names) > 4:
		text += ", though " + strings.Join(names[:4], ", ") + " and " + display.Count(len(names)-4) + " more read it as " + f.Usual
	case len(names) > 0:
		text += ", though " + strings.Join(names, ", ") + " read it as " + f.Usual
	}
	return text + ": " + f.Advice
}

// serverNames returns the servers as people know them, the most used first.
func (f *Finding) serverNames() (names []string) {
	known := map[string]string{
		"http": "Node", "express 5": "Express", "express 4": "Express", "fastify": "Fastify", "koa": "Koa", "hono": "Hono", "django": "Django",
		"flask": "Flask", "fastapi": "FastAPI", "rails": "Rails", "rack": "Rack", "tomcat": "Tomcat", "jetty": "Jetty", "mux": "gorilla/mux",
		"PHP, FPM behind Caddy": "PHP", "PHP, FPM behind nginx": "PHP", "PHP, mod_php": "PHP", "fiber": "Fiber", "echo": "Echo", "gin": "Gin",
		"tornado": "Tornado", "sinatra": "Sinatra", "mojolicious": "Mojolicious", "dancer": "Dancer", "plack": "Plack", "bottle": "Bottle",
		"falcon": "Falcon",
	}
	usual := []string{"Express", "Rails", "PHP", "Django", "Fastify", "Tomcat", "FastAPI", "Flask"}
	for _, server := range f.Servers {
		name := server
		if known[server] != "" {
			name = known[server]
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	rank := func(name string) int {
		if at := slices.Index(usual, name); at >= 0 {
			return at
		}
		return len(usual)
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}
