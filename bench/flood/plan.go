package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// cell is a contender on a flood.
type cell struct {
	contender contender
	flood     flood
}

// plan returns the cells that are measured: those that were named, or the recipe on all floods and what it is compared with.
func plan(o options) ([]cell, error) {
	if o.contenders == "" && o.floods == "" {
		cells, err := cross("recipe", "")
		others, problem := cross("nothing,address", "C")
		return append(cells, others...), errors.Join(err, problem)
	}
	if o.contenders == "" {
		o.contenders = "recipe"
	}
	return cross(o.contenders, o.floods)
}

// cross returns the cells of contenders on floods. Without floods these are all.
func cross(contenders, floods string) (cells []cell, err error) {
	if floods == "" {
		floods = strings.Join(floodNames(), ",")
	}
	for name := range strings.SplitSeq(contenders, ",") {
		c, err := contenderOf(name)
		if err != nil {
			return nil, err
		}
		for name := range strings.SplitSeq(floods, ",") {
			f, err := floodOf(name)
			if err != nil {
				return nil, err
			}
			cells = append(cells, cell{c, f})
		}
	}
	return cells, nil
}

// measureAll measures the cells in rounds, so that what a busy machine adds falls on all of them. It returns what was
// measured before an error.
func measureAll(ctx context.Context, o options, cells []cell, dir string) (results []Result, err error) {
	for i := range o.runs {
		for _, c := range cells {
			if err := awaitQuiet(ctx, o.mostLoad, o.quiet); err != nil {
				return results, err
			}
			r, err := measure(ctx, c, o.seed+uint64(i), o.caddy, dir)
			if err != nil {
				return results, fmt.Errorf("%s on %s: %w", c.contender.name, c.flood.name, err)
			}
			if r.Load > o.mostLoad {
				r.Runs, r.Void = 0, 1
			}
			progress("%s", r)
			results = append(results, r)
			if err := appendResult(o.out, r); err != nil {
				return results, err
			}
		}
	}
	return results, nil
}

func floodNames() (names []string) {
	for _, f := range floods {
		names = append(names, f.name)
	}
	return names
}

func floodOf(name string) (flood, error) {
	i := slices.IndexFunc(floods, func(f flood) bool { return f.name == name })
	if i < 0 {
		return flood{}, fmt.Errorf("-floods %s: use %s", name, strings.Join(floodNames(), ", "))
	}
	return floods[i], nil
}
