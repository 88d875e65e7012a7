package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// measurement measures rows of both builds.
type measurement struct {
	options
	dir    string
	builds [2]build
}

// twice is the instructions of a request, as two processes have counted them.
type twice [2]float64

func (t twice) mean() float64 { return (t[0] + t[1]) / 2 }

// line is a measured row.
type line struct {
	name   string
	counts [2]twice // of the base commit and of the working tree
	err    error
}

// warmRequests come before those that are counted.
const warmRequests = 10 * clients

// countStored counts the rows of redis-server.
func (m *measurement) countStored(ctx context.Context, rows []storedRow) []line {
	lines := make([]line, len(rows))
	for i, r := range rows {
		lines[i].name = r.name
		lines[i].counts, lines[i].err = m.countWithinHour(ctx, r)
		lines[i].report()
	}
	return lines
}

// countWithinHour counts a row again whose windows have ended meanwhile: they begin with an hour.
func (m *measurement) countWithinHour(ctx context.Context, r storedRow) (counts [2]twice, err error) {
	for {
		hour := time.Now().Truncate(time.Hour)
		counts, err = m.countRow(ctx, r)
		if err != nil || time.Now().Truncate(time.Hour).Equal(hour) {
			return counts, err
		}
	}
}

// countRow counts a row of redis-server for both builds.
func (m *measurement) countRow(ctx context.Context, r storedRow) (counts [2]twice, err error) {
	var recordings [2]recording
	for i, b := range m.builds {
		if recordings[i], err = recordRow(ctx, m.dir, b, r); err != nil {
			return counts, fmt.Errorf("recording %s of %s: %w", r.name, b.name, err)
		}
	}
	err = both(func(i int) (err error) {
		for j := range counts[i] {
			if counts[i][j], err = m.countReplay(ctx, recordings[i]); err != nil {
				return fmt.Errorf("%s of %s: %w", r.name, m.builds[i].name, err)
			}
		}
		return nil
	})
	return counts, err
}

// both runs a function for both builds at once.
func both(f func(i int) error) error {
	var failed [2]error
	var running sync.WaitGroup
	for i := range failed {
		running.Go(func() { failed[i] = f(i) })
	}
	running.Wait()
	return errors.Join(failed[:]...)
}

// countReplay returns the instructions of a request, in a Redis of its own.
func (m *measurement) countReplay(ctx context.Context, rec recording) (float64, error) {
	redis, err := serve.CountedRedis(ctx, m.dir)
	if err != nil {
		return 0, err
	}
	defer redis.Stop()
	conn, err := net.Dial("tcp", redis.Addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // nothing is under way
	p := &player{conn: conn, answers: newWireReader(conn)}
	if err := p.play(rec.before, false); err != nil {
		return 0, err
	}
	if err := redis.Begin(ctx); err != nil {
		return 0, err
	}
	if err := p.repeat(rec.cycle, warmRequests/clients); err != nil {
		return 0, err
	}
	if err := redis.Reset(ctx); err != nil {
		return 0, err
	}
	cycles := (m.requests + clients - 1) / clients
	if err := p.repeat(rec.cycle, cycles); err != nil {
		return 0, err
	}
	count, err := redis.Count(ctx)
	return count / float64(cycles*clients), err
}

// player sends recorded messages.
type player struct {
	conn    net.Conn
	answers *wireReader
}

func (p *player) repeat(cycle []*message, times int) error {
	for range times {
		if err := p.play(cycle, true); err != nil {
			return err
		}
	}
	return nil
}

// play sends messages one after the other. Where they are to be the same Redis has to answer as when they were recorded.
func (p *player) play(messages []*message, same bool) error {
	for _, m := range messages {
		if err := p.conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := p.conn.Write(m.sent); err != nil {
			return err
		}
		var answer []byte
		for range m.commands {
			raw, _, err := p.answers.next()
			if err != nil {
				return err
			}
			answer = append(answer, raw...)
		}
		if same && !alike(answer, m.answer) {
			return fmt.Errorf("redis answers %q, and answered %q when it was recorded", answer, m.answer)
		}
	}
	return nil
}

// alike reports whether answers are of one length, and whether the first decision is the same: whether it waits. Times
// and counts differ.
func alike(answer, recorded []byte) bool {
	if len(answer) != len(recorded) || answer[0] != recorded[0] {
		return false
	}
	passes := func(answer []byte) bool {
		_, text, _ := bytes.Cut(answer, []byte("\r\n"))
		const now, wait = 8, 8 // the bytes of these numbers
		return len(text) >= now+wait && bytes.Count(text[now:now+wait], []byte{0}) == wait
	}
	return passes(answer) == passes(recorded)
}
