// Command picture draws the dashboard's main panels from the metrics of a real Caddy on a real Redis,
// under load, in a flood and while Redis is down. It takes a minute and a half. In the repository's root:
//
//	go -C deploy run ./picture -out ../docs/dashboard.svg
//
// It needs redis-server. All lines are results of the dashboard's own expressions.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/dashboard"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/samples"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/scene"
)

func main() {
	out := flag.String("out", "", "the file to write, such as ../docs/dashboard.svg")
	model := flag.String("dashboard", "grafana/redis-ratelimit.json", "the dashboard whose panels are drawn")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *model, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, model, out string) (err error) {
	if out == "" {
		return errors.New("-out is missing: set it to the file to write, such as ../docs/dashboard.svg")
	}
	d, err := dashboard.Load(model)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "picture")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kept, err := samples.New(dir + "/samples")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	begin, err := perform(ctx, dir, kept)
	if err != nil {
		return err
	}
	panels, err := ask(d, kept, begin)
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if err := draw(&svg, panels); err != nil {
		return err
	}
	return os.WriteFile(out, svg.Bytes(), 0o644)
}

// perform runs the scenario and reads the metrics every second. It returns the time of the beginning.
func perform(ctx context.Context, dir string, kept *samples.Samples) (begin time.Time, err error) {
	binary, err := scene.Build(ctx, dir)
	if err != nil {
		return begin, err
	}
	s, err := scene.Start(ctx, binary, dir)
	if err != nil {
		return begin, err
	}
	defer s.Close()
	ctx, end := context.WithTimeout(ctx, length)
	defer end()
	begin = time.Now()
	running := make(chan error, 1)
	go func() { running <- runScenario(ctx, s, begin) }()
	err = watch(ctx, s, kept)
	return begin, errors.Join(err, <-running)
}

// watch reads the metrics every second until the scenario ends.
func watch(ctx context.Context, s *scene.Scene, kept *samples.Samples) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		text, err := s.Metrics(ctx)
		switch {
		case ctx.Err() != nil:
			return stopped(ctx)
		case err != nil:
			return err
		}
		if err := kept.Add(text, time.Now(), "caddy-1"); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return stopped(ctx)
		}
	}
}

// stopped returns nil at the end of the scenario, and an error where it was interrupted.
func stopped(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return ctx.Err()
}
