package replay

import (
	"math"
	"slices"
)

// mostLimits bounds the limits of a ladder that are shown.
const mostLimits = 30

// nearlyAll is the fraction from which a limit denies so much that lower ones add no information.
const nearlyAll = 0.9

// fractions are the fractions of the requests, or of the clients, that each limit of a ladder denies under one
// algorithm. If one client sends most requests the two differ much: the limits that matter to the others are far
// below those at which the fraction of the requests changes.
type fractions []float64

func fractionsOf(ladder []limitResult, requests int64, clients int) []fractions {
	ofRequests, ofClients := make(fractions, len(ladder)), make(fractions, len(ladder))
	for i, r := range ladder {
		ofRequests[i] = float64(r.Denied) / float64(max(1, requests))
		ofClients[i] = float64(r.ClientsDenied) / float64(max(1, clients))
	}
	return []fractions{ofRequests, ofClients}
}

// span returns the last limit that denies nearly all and the first that denies nothing.
func (s fractions) span() (first, last int) {
	if last = slices.Index(s, 0); last < 0 {
		last = len(s) - 1
	}
	for i := range last {
		if s[i] >= nearlyAll {
			first = i
		}
	}
	return first, last
}

// keepUseful keeps the limits of ladders that are shown, the same of each, none without a request.
func keepUseful(ladders []Ladder, requests int64, clients int, own int64) {
	var all []fractions
	for _, l := range ladders {
		all = append(all, fractionsOf(l.Limits, requests, clients)...)
	}
	var places []int
	if requests > 0 && len(all) > 0 {
		places = usefulPlaces(all, slices.IndexFunc(ladders[0].Limits, func(r limitResult) bool { return r.Limit == own }))
	}
	for i := range ladders {
		shown := make([]limitResult, len(places))
		for j, place := range places {
			shown[j] = ladders[i].Limits[place]
		}
		ladders[i].Limits = shown
	}
}

// usefulPlaces returns the limits that are shown, by their places on the ladder: from where the first fraction
// begins to fall, or from the policy's own limit if that is lower, to where the last fraction is 0. If these are
// too many, those with the least information are dropped. An own limit above is added alone, because nothing
// changes on the way to it.
func usefulPlaces(all []fractions, own int) []int {
	first, last := len(all[0])-1, 0
	for _, s := range all {
		from, to := s.span()
		first, last = min(first, from), max(last, to)
	}
	if own >= 0 {
		first = min(first, own)
	}
	var places []int
	for place := first; place <= last; place++ {
		places = append(places, place)
	}
	if own > last {
		places = append(places, own)
	}
	for len(places) > mostLimits {
		least, at := math.Inf(1), 0
		for i := 1; i+1 < len(places); i++ {
			if gap := gapOf(all, places[i-1], places[i+1]); gap < least && places[i] != own {
				least, at = gap, i
			}
		}
		places = slices.Delete(places, at, at+1)
	}
	return places
}

// gapOf returns the information that is lost between two neighbors: how far a fraction falls from one to the
// other, and the part of the ladder between them, so that flat stretches keep a limit too.
func gapOf(all []fractions, from, to int) float64 {
	fall := 0.0
	for _, s := range all {
		fall = max(fall, math.Abs(s[from]-s[to]))
	}
	return fall + float64(to-from)/float64(len(all[0]))
}
