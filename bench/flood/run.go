package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// runOf is a run of a contender on a flood.
type runOf struct {
	flood flood
	seed  uint64
	site  *site
	began time.Time
	tally *tally
}

// measure makes a run.
func measure(ctx context.Context, c cell, seed uint64, binary, dir string) (Result, error) {
	b, err := newBackend()
	if err != nil {
		return Result{}, err
	}
	defer b.stop()
	nodes, stop, err := c.contender.start(ctx, dir, binary, b.address)
	defer stop()
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &runOf{flood: c.flood, seed: seed, site: newSite(addressesOf(nodes)), tally: newTally()}
	defer r.site.close()
	result, err := r.play(ctx, &meter{backend: b, nodes: nodes})
	result.Contender, result.Flood, result.Seed, result.Runs = c.contender.name, c.flood.name, seed, 1
	return result, err
}

func addressesOf(nodes []*serve.Process) (addresses []string) {
	for _, n := range nodes {
		addresses = append(addresses, n.Addr)
	}
	return addresses
}

// play plays a run, which begins with a second of the clock: what the handler signs has whole ones.
func (r *runOf) play(ctx context.Context, m *meter) (Result, error) {
	r.began = time.Now().Truncate(time.Second).Add(time.Second)
	if err := r.until(ctx, 0); err != nil {
		return Result{}, err
	}
	go r.startPrograms(ctx)
	go r.startFlood(ctx)
	go m.watch(ctx, r)
	r.makeVisits(ctx)
	result := r.tally.take()
	m.read(&result)
	return result, ctx.Err()
}

// at returns the time of a run.
func (r *runOf) at(moment time.Time) time.Duration { return moment.Sub(r.began) }

// until waits for a time of the run.
func (r *runOf) until(ctx context.Context, at time.Duration) error {
	return sleep(ctx, time.Until(r.began.Add(at)))
}

func (r *runOf) startPrograms(ctx context.Context) {
	for i, p := range programs(r.site) {
		go p.run(ctx, newRandom(r.seed, ofPrograms+theme(i)), func(began time.Time, came bool) { r.tally.program(p.name, r.at(began), came) })
	}
}

func (r *runOf) startFlood(ctx context.Context) {
	if r.until(ctx, calm) != nil {
		return
	}
	switch {
	case r.flood.run != nil:
		r.flood.run(r, ctx)
	case r.flood.bots > 0:
		r.sendBots(ctx)
	}
}

// visitsPerSecond returns how many people come at a time of the run.
func (r *runOf) visitsPerSecond(at time.Duration) float64 {
	if at >= calm && r.flood.people > 0 {
		return visitsPerSecond * r.flood.people
	}
	return visitsPerSecond
}

// makeVisits makes visits until all measured ones have ended. People go on to come until then.
func (r *runOf) makeVisits(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var counted sync.WaitGroup
	visits := planVisits(newRandom(r.seed, ofPeople), r.visitsPerSecond)
	for len(visits) > 0 && visits[0].begins < measured && r.until(ctx, visits[0].begins) == nil {
		v := visits[0]
		visits = visits[1:]
		if isMeasured(v.begins) {
			counted.Go(func() { r.tally.visit(v.kind, v.make(ctx, r.site, func(o outcome) { r.tally.click(v.kind, o) })) })
		} else {
			go v.make(ctx, r.site, func(outcome) {})
		}
	}
	go r.makeOthers(ctx, visits)
	counted.Wait()
}

// makeOthers makes visits that do not count.
func (r *runOf) makeOthers(ctx context.Context, visits []visit) {
	for _, v := range visits {
		if r.until(ctx, v.begins) != nil {
			return
		}
		go v.make(ctx, r.site, func(outcome) {})
	}
}
