package dial

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// sessions has the open connections of a client log in again with each new login. Each connection is taken from the
// pool for that while it is idle, so that no request waits for the reply. A task does it for as long as a connection is
// open.
type sessions struct {
	logins *loginSource
	report func(err error)
	task   clock.Task

	round atomic.Int64 // grows with each login; connections of an earlier round are to log in again

	mu   sync.Mutex // guards what follows
	open map[*session]*goredis.Client
	used credentials.Login // of the round
}

func newSessions(logins *loginSource, report func(err error)) *sessions {
	if report == nil {
		report = func(error) {}
	}
	s := &sessions{logins: logins, report: report, open: map[*session]*goredis.Client{}}
	s.task.Run = s.renew
	return s
}

// keep has the connections of a client look at what the server says first, and log in again. Those to sentinels are another
// client's.
func (s *sessions) keep(client *goredis.Client) *goredis.Client {
	client.AddHook(greetingHook{})
	if s != nil {
		client.AddHook(sessionHook{sessions: s, client: client})
	}
	return client
}

// login returns what a new connection logs in with.
func (s *sessions) login(ctx context.Context) (username, password string, err error) {
	login, err := s.logins.get(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used.Password == "" {
		s.used = login
	}
	return login.Username, login.Password, err
}

// renew asks for a new login if that is due, and logs in with it.
func (s *sessions) renew() {
	if !s.areOpen() {
		return // the next connection starts the task
	}
	login, err := s.logins.answer()
	if s.logins.wait() == 0 || err != nil {
		login, err = s.logins.renew(context.Background())
	}
	if err == nil {
		err = s.sweep(login)
	}
	wait := s.logins.wait()
	switch problem := s.logins.problem(); {
	case problem != nil:
		s.report(Undecided(&CredentialsError{What: s.logins.what, Err: problem}))
	case err == nil, isRefused(err):
		s.report(Undecided(err))
	}
	if err != nil {
		wait = pollPause
	}
	s.task.Start(max(wait, pollPause))
}

// sweep logs all connections in that have not yet done so with a login. A node of a Cluster that does not answer keeps
// no other waiting.
func (s *sessions) sweep(login credentials.Login) (err error) {
	attempts, failed := s.begin(login), map[*goredis.Client]bool{}
	for client := s.stale(failed); client != nil; client = s.stale(failed) {
		if attempts--; attempts < 0 {
			return errors.Join(err, errBusy)
		}
		if e := logInIdle(client, login); e != nil {
			err, failed[client] = errors.Join(err, e), true
		}
	}
	if isRefused(err) {
		s.round.Add(1) // who was refused has noted AUTH, and tries again
	}
	return err
}

// isRefused reports whether a server has answered AUTH with an error.
func isRefused(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply)
}

// errBusy is the error of a sweep that has not met all connections. The next one goes on.
var errBusy = errors.New("connections are busy")

// begin begins another round if the login is new. It returns how many connections may be taken: the same one may be
// taken again while another one is in use.
func (s *sessions) begin(login credentials.Login) (attempts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used != login {
		s.used = login
		s.round.Add(1)
	}
	return 50 * (1 + len(s.open))
}

// stale returns a client with a connection that is to log in, except for those that failed; nil: there is none.
func (s *sessions) stale(failed map[*goredis.Client]bool) *goredis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, client := range s.open {
		if c.round.Load() != s.round.Load() && !failed[client] {
			return client
		}
	}
	return nil
}

func (s *sessions) areOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0
}

// logInIdle logs in an idle connection of a client, the one that is idle for longest.
func logInIdle(client *goredis.Client, login credentials.Login) error {
	ctx, cancel := context.WithTimeout(context.Background(), ConnectBudget)
	defer cancel()
	conn := client.WithTimeout(ConnectBudget).Conn()
	defer conn.Close() //nolint:errcheck // it returns to the pool
	return logIn(ctx, conn, login)
}

// logIn sends AUTH, which Redis permits every user.
func logIn(ctx context.Context, conn *goredis.Conn, login credentials.Login) error {
	if login.Username == "" {
		return conn.Auth(ctx, login.Password).Err()
	}
	return conn.AuthACL(ctx, login.Username, login.Password).Err()
}

// session is a connection that knows in which round it has logged in.
type session struct {
	net.Conn

	owner *sessions
	round atomic.Int64
}

// Write notes the commands that log in.
func (c *session) Write(p []byte) (int, error) {
	if round := c.owner.round.Load(); c.round.Load() != round && (bytes.HasPrefix(p, authUser) || bytes.HasPrefix(p, authDefault)) {
		c.round.Store(round)
	}
	return c.Conn.Write(p)
}

// The beginnings of AUTH on the wire, with a user and without.
var authUser, authDefault = []byte("*3\r\n$4\r\nauth\r\n"), []byte("*2\r\n$4\r\nauth\r\n")

// Close forgets the connection.
func (c *session) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// socketSession is a session that is no TLS: the pool looks at its socket before it gives it out.
type socketSession struct {
	*session
	syscall.Conn
}

// sessionHook notes the connections of a client.
type sessionHook struct {
	dialHook

	sessions *sessions
	client   *goredis.Client
}

// DialHook implements goredis.Hook.
func (h sessionHook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		s := h.sessions
		c := &session{Conn: conn, owner: s}
		s.mu.Lock()
		c.round.Store(s.round.Load())
		s.open[c] = h.client
		s.mu.Unlock()
		s.task.Start(pollPause)
		if socket, ok := conn.(syscall.Conn); ok {
			return socketSession{c, socket}, nil
		}
		return c, nil
	}
}

// Interface guards
var _ goredis.Hook = sessionHook{}
