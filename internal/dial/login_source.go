package dial

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
)

// loginSource asks a provider for logins, and keeps the last one for as long as it is valid.
type loginSource struct {
	what     string // in errors
	provider credentials.Provider
	username string // of logins without one

	asking sync.Mutex // held while the provider is asked

	mu    sync.Mutex // guards what follows
	last  credentials.Login
	asked time.Time // when the provider has answered
	due   time.Time // when it is to be asked again
	err   error     // of its last answer
}

// The pauses until a provider is asked again.
const (
	pollPause = time.Second      // if its logins have no end; the shortest
	longPause = 30 * time.Second // the longest after an error
)

// get returns what a new connection logs in with.
func (s *loginSource) get(ctx context.Context) (credentials.Login, error) {
	if login, err := s.answer(); err == nil && !login.End.IsZero() {
		return login, nil // renewed in the background
	}
	return s.renew(ctx)
}

// renew asks the provider, for as long as connecting may take. Those who come meanwhile get the same answer.
func (s *loginSource) renew(ctx context.Context) (credentials.Login, error) {
	began := time.Now()
	s.asking.Lock()
	defer s.asking.Unlock()
	if !s.hasAnswered(began) {
		limited, cancel := context.WithTimeout(ctx, ConnectBudget)
		defer cancel()
		s.note(s.provider.Login(limited))
	}
	return s.answer()
}

func (s *loginSource) hasAnswered(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked.After(since)
}

// note keeps an answer of the provider. After an error the last login stays.
func (s *loginSource) note(login credentials.Login, err error) {
	now := time.Now()
	left := login.End.Sub(now)
	if err == nil && login.Password == "" {
		err = errors.New("the provider has returned no password")
	}
	if err == nil && !login.End.IsZero() && left <= 0 {
		err = errors.New("what the provider has returned has ended already; set this machine's clock")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.err, s.due = now, err, now.Add(pollPause)
	if err != nil {
		s.due = now.Add(min(max(s.last.End.Sub(now)/8, pollPause), longPause))
		return
	}
	s.last = login
	s.last.Username = cmp.Or(login.Username, s.username)
	if !login.End.IsZero() { // nodes that began together ask at different times
		s.due = now.Add(max(left*time.Duration(70+rand.IntN(10))/100, pollPause))
	}
}

// answer returns the last login while it is valid.
func (s *loginSource) answer() (credentials.Login, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.last.Password != "" && (s.last.End.IsZero() || time.Now().Before(s.last.End)):
		return s.last, nil
	case s.err != nil:
		return credentials.Login{}, &CredentialsError{What: s.what, Err: s.err}
	}
	return credentials.Login{}, &CredentialsError{What: s.what, Err: errors.New("the last login has ended")}
}

// problem returns the error of the provider's last answer.
func (s *loginSource) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// wait returns how long it is until the provider is to be asked; 0: it is due.
func (s *loginSource) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(time.Until(s.due), 0)
}
