package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

const wrongPassword = reply("WRONGPASS invalid username-password pair or user is disabled.")

// door is a batcher on a Redis that lets no new connection in. The first batch holds the one that is open.
type door struct {
	batcher
	sent    atomic.Int32
	open    chan struct{} // takes the connection, and frees it when closed
	reports atomic.Int32
}

func newDoor() *door {
	d := &door{open: make(chan struct{})}
	d.Senders.Usual, d.Senders.RoundTrip = time.Hour, 100*time.Millisecond // no batch stalls; many senders
	d.OnRefused = func(error) { d.reports.Add(1) }
	d.Send = func(_ context.Context, calls []*Call) bool {
		switch d.sent.Add(1) {
		case 1:
			<-d.open
		case 2:
			for _, c := range calls {
				c.Err = dial.Undecided(wrongPassword)
			}
			return false
		}
		return true
	}
	return d
}

// idle sets how many connections seem to be ready, and that the last batch left long ago.
func (d *door) idle(ready int) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.ready, d.Senders.lastSent = ready, 0
}

// request decides a request in the background, and returns its outcome.
func (d *door) request(timeout time.Duration) <-chan error {
	outcome := make(chan error, 1)
	c := NewCall(OpTake, []limiter.Check{{Key: limiter.EncodeKey("k")}})
	go func() {
		err := d.Do(context.Background(), c, timeout)
		if err == nil {
			err = c.Err
			c.Recycle()
		}
		outcome <- err
	}()
	return outcome
}

func (d *door) waitForBatches(t *testing.T, n int32) {
	t.Helper()
	assert.Retry(t, "the batches are sent", func() (again bool, seen any) {
		return d.sent.Load() != n, "another number was sent"
	})
}

func TestBatcher_refused_login(t *testing.T) {
	for name, ready := range map[string]int{"by a sender": 0, "by the caller": 1} {
		t.Run(name, func(t *testing.T) {
			d := newDoor()
			older := d.request(time.Minute)
			d.waitForBatches(t, 1)
			d.idle(ready)
			newer := d.request(time.Minute)
			assert.Retry(t, "the refused batch is reported", func() (again bool, seen any) {
				return d.reports.Load() == 0, "it is not"
			})
			third := d.request(time.Minute) // opens no connection
			close(d.open)
			for which, outcome := range map[string]<-chan error{"older": older, "newer": newer, "third": third} {
				err := <-outcome
				assert.ErrorIf(t, err != nil, "the %s request: %v", which, err)
			}
			assert.Equal(t, d.reports.Load(), 1, "the number of reports")
		})
	}
}

// TestBatcher_refused_login_alone has no older connection.
func TestBatcher_refused_login_alone(t *testing.T) {
	d := newDoor()
	d.sent.Store(1)
	if err := <-d.request(time.Minute); limiter.Kind(err) != "auth" || d.reports.Load() != 0 {
		t.Errorf("got %v and %d reports; want the refusal", err, d.reports.Load())
	}
	err := <-d.request(time.Minute)
	assert.ErrorIf(t, err != nil, "the next request: %v", err)
}

// TestBatcher_refused_login_timeout has a caller that leaves before the older connection is free.
func TestBatcher_refused_login_timeout(t *testing.T) {
	assert.Retry(t, "the newer batch is sent before its caller leaves", func() (again bool, seen any) {
		d := newDoor()
		older := d.request(time.Minute)
		d.waitForBatches(t, 1)
		d.idle(0)
		err := <-d.request(300 * time.Millisecond)
		assert.ErrorIf(t, !errors.Is(err, limiter.ErrUnsent), "got %v, want one without a sending", err)
		close(d.open)
		err = <-older
		assert.ErrorIf(t, err != nil, "%+v", err)
		d.await(t, "the queue is empty", func() bool { return len(d.Waiting) == 0 })
		sent := d.sent.Load()
		assert.ErrorIf(t, sent > 2, "%d batches were sent, want 2", sent)
		return sent < 2, sent
	})
}

func TestRefusedLogin(t *testing.T) {
	for text, want := range map[string]bool{
		string(wrongPassword): true,
		"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?": true,
		"NOAUTH Authentication required.":                       false,
		"NOPERM this user has no permissions":                   false,
		"ERR value is not an integer":                           false,
		sentinelsRefuse + "...: NOAUTH Authentication needed":   true,
		sentinelsRefuse + "...: ERR No such master with that n": false,
	} {
		assert.Equal(t, refusedLogin(dial.Undecided(reply(text))), want, "%s", text)
	}
	for cause, want := range map[error]bool{syscall.ECONNREFUSED: true, os.ErrDeadlineExceeded: false, io.EOF: false} {
		err := dial.Undecided(fmt.Errorf(sentinelsRefuse+"...: %w", errors.Join(cause, cause)))
		assert.Equal(t, refusedLogin(err), want, "sentinels: %v", cause)
	}
	for alert, want := range map[string]bool{
		"bad certificate": true, "certificate required": true, "unknown certificate authority": true, "handshake failure": true,
		"internal error": false, "user canceled": false, "bad record MAC": false,
	} {
		err := dial.Undecided(&net.OpError{Op: "remote error", Err: errors.New("tls: " + alert)})
		assert.Equal(t, refusedLogin(err), want, "alert %q", alert)
	}
	for _, own := range []error{&dial.CredentialsError{What: "tls", Err: os.ErrNotExist}, &tls.CertificateVerificationError{Err: os.ErrInvalid}} {
		assert.ErrorIf(t, !refusedLogin(dial.Undecided(own)), "%v is no refused login", own)
	}
	assert.ErrorIf(t, refusedLogin(dial.Undecided(syscall.ECONNREFUSED)),
		"a server that refuses connections is a refused login")
	assert.ErrorIf(t, refusedLogin(nil) || refusedLogin(limiter.ErrTimeout) || refusedLogin(dial.Undecided(dial.Failure(wrongPassword))),
		"an error of no connection is a refused login")
}
