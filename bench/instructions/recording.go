package main

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the hash that Redis has of a script
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/load"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// recording is what a build's Caddy sends Redis for the requests of a row.
type recording struct {
	before []*message // until every client has a count
	cycle  []*message // of one request of each client, or of the denial of each
}

const (
	mark = "{client-" // in each key of a client, and in no other
	plug = "{plug"

	// roundTrip is how long the first answer takes: Caddy sends no second batch beside one that is not late, by what
	// it knows of the answers so far.
	roundTrip = 300 * time.Millisecond

	// shortHold is how long an answer is withheld at first, so that the requests of a batch gather.
	shortHold = 30 * time.Millisecond

	// attempts is how often a row is recorded whose batches have not the right size. Each withholds answers for longer.
	attempts = 6

	patience = 10 * time.Second
)

// errUneven is the error of batches that are not as a row has them.
var errUneven = errors.New("the batches are not as large as they should be")

// recordRow returns what a build sends for a row. On a busy machine requests are late for their batch: that is seen, and
// all is recorded anew.
func recordRow(ctx context.Context, dir string, b build, r storedRow) (rec recording, err error) {
	if r.floor {
		return emptyScript(), nil
	}
	for hold, i := shortHold, 0; i < attempts; hold, i = 2*hold, i+1 {
		if rec, err = tryRecord(ctx, dir, b, r, hold); !errors.Is(err, errUneven) || ctx.Err() != nil {
			return rec, err
		}
	}
	return rec, err
}

// tryRecord records a row once, on a Caddy and a Redis of its own.
func tryRecord(ctx context.Context, dir string, b build, r storedRow, hold time.Duration) (rec recording, err error) {
	redis, err := serve.Redis(ctx, dir)
	if err != nil {
		return rec, err
	}
	defer redis.Stop()
	tape, err := record(redis.Addr)
	if err != nil {
		return rec, err
	}
	defer tape.Close()
	const options = "redis_ratelimit {\nredis redis://{$REDIS}\ntimeout 10s\nfail_mode closed\n}"
	caddy, err := serve.Caddy(ctx, dir, b.binary, "recorded", options, r.site(), tape.Addr().String())
	if err != nil {
		return rec, err
	}
	defer caddy.Stop()
	s := &session{row: r, tape: tape, addr: caddy.Addr, hold: hold}
	defer s.close()
	return s.record()
}

// session is a row that is being recorded.
type session struct {
	row  storedRow
	tape *recorder
	addr string
	hold time.Duration

	plugs, batches *load.Client
}

func (s *session) close() {
	for _, c := range []*load.Client{s.plugs, s.batches} {
		if c != nil {
			c.Close()
		}
	}
}

// record has every client make a request, and then the requests that are kept.
func (s *session) record() (rec recording, err error) {
	if s.plugs, err = load.Dial(s.addr, 1); err != nil {
		return rec, err
	}
	if s.batches, err = load.Dial(s.addr, s.row.batch); err != nil {
		return rec, err
	}
	release := s.tape.withhold()
	time.AfterFunc(roundTrip, release)
	if err := s.plug(); err != nil {
		return rec, err
	}
	// A batch of any size is sent by a script that Redis has then.
	if _, err := s.cycle(http.StatusOK); err != nil {
		return rec, err
	}
	rec.before, _ = s.tape.messages(0)
	status := http.StatusOK
	if s.row.denied {
		status = http.StatusTooManyRequests
	}
	rec.cycle, err = s.cycle(status)
	for _, m := range rec.cycle {
		if m.text {
			err = errors.Join(err, errors.New("a script was sent with its text after its first use"))
		}
	}
	return rec, err
}

// plug makes a request whose message leaves alone.
func (s *session) plug() error {
	_, err := s.plugs.Run([][]byte{request(pathPlug, "plug")}, 1)
	return err
}

func request(path, client string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: bench\r\nX-Key: %s\r\n\r\n", path, client)
}

// cycle makes a request of each client, in batches, and returns the messages.
func (s *session) cycle(status int) (messages []*message, err error) {
	for first := 0; first < clients; first += s.row.batch {
		requests := make([][]byte, s.row.batch)
		for i := range requests {
			path := pathAll
			if s.row.mixed && i > 0 {
				path = pathFirst
			}
			requests[i] = request(path, fmt.Sprint("client-", first+i))
		}
		round, err := s.round(requests, status)
		if err != nil {
			return nil, err
		}
		messages = append(messages, round...)
	}
	return messages, nil
}

// round makes requests that leave together, and returns their messages.
func (s *session) round(requests [][]byte, status int) ([]*message, error) {
	answer := func() error {
		result, err := s.batches.Run(requests, len(requests))
		if err == nil && (result.Failed > 0 || result.Denied > 0 != (status == http.StatusTooManyRequests)) {
			err = fmt.Errorf("%d requests were denied and %d failed, instead of the status %d", result.Denied, result.Failed, status)
		}
		return err
	}
	if len(requests) == 1 {
		from := s.count()
		if err := answer(); err != nil {
			return nil, err
		}
		return s.sent(from)
	}
	for range 2 { // quick ones, so that Caddy sends one batch at a time
		if err := s.plug(); err != nil {
			return nil, err
		}
	}
	from, release := s.count(), s.tape.withhold()
	failures := make(chan error, 2)
	go func() { failures <- s.plug() }()
	late := await(func() bool { return s.count() > from })
	go func() { failures <- answer() }()
	time.Sleep(s.hold)
	release()
	if err := errors.Join(late, <-failures, <-failures); err != nil {
		return nil, err
	}
	return s.sent(from)
}

// count returns the number of messages so far.
func (s *session) count() int {
	list, _ := s.tape.messages(0)
	return len(list)
}

// sent returns the messages of clients from a number on, when the last one has been answered. They are as the row has
// them.
func (s *session) sent(from int) (messages []*message, err error) {
	checks := s.row.checks()
	err = await(func() bool {
		list, all := s.tape.messages(from)
		messages = nil
		sum := 0
		for _, m := range list {
			if n := m.marked(mark); n > 0 && !m.unknown() {
				messages = append(messages, m)
				sum += n
			}
		}
		return all && sum >= checks*(1+s.row.after)
	})
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if bytes.HasPrefix(m.answer, []byte("-")) {
			return nil, fmt.Errorf("redis answers %q", bytes.TrimSpace(m.answer))
		}
	}
	if !s.even(messages) {
		return nil, fmt.Errorf("%w: %d messages of %d requests that had %v to gather", errUneven, len(messages), s.row.batch, s.hold)
	}
	return messages, nil
}

// checks returns how many checks the requests of a batch have.
func (r storedRow) checks() int {
	if r.mixed {
		return r.batch - 1 + len(r.policies)
	}
	return r.batch * len(r.policies)
}

// even reports whether one message holds the checks of all requests of a batch, and as many what follows them. Those of two
// policies may leave apart from those of one.
func (s *session) even(messages []*message) bool {
	sizes := map[int]int{} // messages by their checks
	for _, m := range messages {
		sizes[m.marked(mark)]++
		if m.marked(plug) > 0 {
			return false
		}
	}
	if s.row.mixed && len(sizes) == 2 {
		return sizes[s.row.batch-1] == 1 && sizes[len(s.row.policies)] == 1
	}
	return len(sizes) == 1 && sizes[s.row.checks()] == 1+s.row.after
}

// await waits until a condition holds.
func await(holds func() bool) error {
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			return errors.New("the messages of the requests have not come")
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// emptyScript is what a call of any script costs: one that has neither keys nor arguments, and returns at once.
func emptyScript() recording {
	const text = "return 1"
	hash := fmt.Sprintf("%x", sha1.Sum([]byte(text))) //nolint:gosec // the hash that Redis has of a script
	call := &message{sent: command("EVALSHA", hash, "0"), answer: []byte(":1\r\n"), commands: 1}
	return recording{
		before: []*message{{sent: command("SCRIPT", "LOAD", text), commands: 1}},
		cycle:  slices.Repeat([]*message{call}, clients),
	}
}

// command returns a command as Redis's protocol has it.
func command(words ...string) []byte {
	raw := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		raw = fmt.Appendf(raw, "$%d\r\n%s\r\n", len(word), word)
	}
	return raw
}
