package main

import (
	"fmt"
	"strings"
)

// bar is what a recipe has to reach on a flood, in percent.
type bar struct{ pages, visits float64 }

// bars are those of floods. On H there is none: so many people are more than the backend can serve. On D+ there is one for
// people known before the flood: the others cannot be told from bots that do all that browsers do. On E+ there is none at all,
// as readers with passes hold the places of everyone.
var (
	bars = map[string]bar{
		"0": {99, 99}, "A": {98, 97}, "B": {95, 92}, "C": {95, 92}, "D": {94, 92}, "D0": {94, 92}, "E": {95, 95}, "F": {98, 98}, "G": {95, 92},
	}
	knownBars = map[string]bar{"D+": {95, 95}}
)

const (
	programBar = 95.0

	// tolerance is how far below its bar a cell may be: so far three runs vary.
	tolerance = 3.0

	// doubledTolerance is how far a recipe for twice the backend may be below the recipe.
	doubledTolerance = 5.0
)

// below names a count that is more than so many points below a bar.
func below(misses []string, what string, c Count, bar, points float64) []string {
	if percent, ok := c.percent(); ok && percent >= bar-points {
		return misses
	}
	return append(misses, fmt.Sprintf("%s %s, not %.0f", what, c, bar))
}

// missesBars returns which bars a cell misses.
func missesBars(_ *table, r *Result) (misses []string) {
	if b, some := bars[r.Flood]; some {
		all := r.everyone()
		misses = below(misses, "pages", all.Pages, b.pages, tolerance)
		misses = below(misses, "visits", all.Visits, b.visits, tolerance)
	}
	if b, some := knownBars[r.Flood]; some {
		misses = below(misses, "pages of known", r.People[known].Pages, b.pages, tolerance)
		misses = below(misses, "visits of known", r.People[known].Visits, b.visits, tolerance)
	}
	if r.Flood == "E+" {
		return nil
	}
	for _, name := range wanted {
		misses = below(misses, name, r.Programs[name], programBar, tolerance)
	}
	return misses
}

// missesRecipe returns where a cell is below that of the recipe on its flood.
func missesRecipe(t *table, r *Result) (misses []string) {
	beside := t.find(recipe, r.Flood)
	if beside == nil || beside.Runs == 0 {
		return []string{"the recipe was not measured beside it"}
	}
	all, others := r.everyone(), beside.everyone()
	pages, _ := others.Pages.percent() // a cell with runs has some
	visits, _ := others.Visits.percent()
	misses = below(misses, "pages", all.Pages, pages, doubledTolerance)
	return below(misses, "visits", all.Visits, visits, doubledTolerance)
}

// verdict says whether a cell is as expected, and counts what it misses.
func (t *table) verdict(r *Result) (text string, misses int) {
	c, err := contenderOf(r.Contender)
	if err != nil || c.judged == nil {
		return "–", 0
	}
	if r.Runs == 0 {
		return "not measured", 1
	}
	list := c.judged(t, r)
	if len(list) == 0 {
		return "holds", 0
	}
	return "misses: " + strings.Join(list, ", "), len(list)
}
