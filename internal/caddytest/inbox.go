package caddytest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// InboxSecret signs what an [Inbox] receives.
const InboxSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Message is what an [Inbox] has received, in one attempt.
type Message struct {
	ID, Timestamp, Signature, Body string `json:"-"`

	Type string
	Data map[string]any
}

// Inbox is a receiver of webhooks.
type Inbox struct {
	*httptest.Server

	// Answer writes the answer to an attempt. Nil: 204.
	Answer http.HandlerFunc

	mu  sync.Mutex
	got []Message
}

// NewInbox starts a receiver, which answers each attempt with the next of some statuses, and then with 204.
func NewInbox(t testing.TB, statuses ...int) *Inbox {
	t.Helper()
	b := &Inbox{}
	if len(statuses) > 0 {
		b.Answer = func(w http.ResponseWriter, _ *http.Request) {
			if at := len(b.Messages()) - 1; at < len(statuses) {
				w.WriteHeader(statuses[at])
			}
		}
	}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

// NewHangingInbox starts a receiver that answers nothing before the test's end.
func NewHangingInbox(t testing.TB) *Inbox {
	t.Helper()
	b, end := NewInbox(t), make(chan struct{})
	b.Answer = func(http.ResponseWriter, *http.Request) { <-end }
	t.Cleanup(func() { close(end) }) // before the server is closed
	return b
}

// ServeHTTP implements [http.Handler].
func (b *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	header := r.Header.Get
	m := Message{ID: header("webhook-id"), Timestamp: header("webhook-timestamp"), Signature: header("webhook-signature"), Body: string(body)}
	_ = json.Unmarshal(body, &m)
	b.mu.Lock()
	b.got = append(b.got, m)
	b.mu.Unlock()
	if b.Answer != nil {
		b.Answer(w, r)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
}

// Messages returns what was received, in order.
func (b *Inbox) Messages() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

// WaitFor waits for so many attempts of a type, and returns them. More of them fail the test.
func (b *Inbox) WaitFor(t testing.TB, kind string, want int) (of []Message) {
	t.Helper()
	assert.WaitFor(t, fmt.Sprintf("%d messages %s", want, kind), func() error {
		of = slices.DeleteFunc(b.Messages(), func(m Message) bool { return m.Type != kind })
		if len(of) < want {
			return fmt.Errorf("there are %+v", b.Messages())
		}
		return nil
	})
	assert.FatalIf(t, len(of) > want, "%d messages %s, want %d: %+v", len(of), kind, want, of)
	for _, m := range of {
		m.Verify(t)
	}
	return of
}

// Verify checks the signature by the text of Standard Webhooks, without the code under test.
func (m Message) Verify(t testing.TB) {
	t.Helper()
	key := assert.NoError(base64.StdEncoding.DecodeString(strings.TrimPrefix(InboxSecret, "whsec_")))(t)
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", m.ID, m.Timestamp, m.Body)
	assert.Equal(t, m.Signature, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), "the signature")
	seconds := assert.NoError(strconv.ParseInt(m.Timestamp, 10, 64))(t)
	assert.ErrorIf(t, time.Since(time.Unix(seconds, 0)).Abs() > time.Minute, "the timestamp is %s", m.Timestamp)
}

// HashInboxKey returns what stands in a message for a client's key.
func HashInboxKey(t testing.TB, key string) string {
	t.Helper()
	secret := assert.NoError(base64.StdEncoding.DecodeString(strings.TrimPrefix(InboxSecret, "whsec_")))(t)
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte("key:" + key))
	return hex.EncodeToString(mac.Sum(nil))
}
