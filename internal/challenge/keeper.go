package challenge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Keeper keeps the secret that signs tokens. It is safe for concurrent use.
type Keeper struct {
	now     func() time.Time
	secrets atomic.Pointer[secrets] // nil: none is known yet

	redis    secretStore // the rest is for a secret that is read from there
	key      string
	onUnread func(err error)
	polls    clock.Task
	end      context.CancelFunc
}

// secrets sign by the first, and read by the former too.
type secrets struct {
	secret

	former *secret

	signers sync.Pool // of the first; a MAC by one that was used before costs half of the first
}

// signer returns a signer of the first secret, to be put back afterwards.
func (s *secrets) signer() *signer {
	if used, ok := s.signers.Get().(*signer); ok {
		return used
	}
	return s.newSigner()
}

// sign returns the text of a token for a network. The secret has to be known.
func (k *Keeper) sign(t token, n network) string {
	s := k.secrets.Load()
	signer := s.signer()
	defer s.signers.Put(signer)
	return signer.sign(t, n)
}

// signPage returns the texts of the ticket of a page that waits, and of its style sheet's token. The secret has to be known.
func (k *Keeper) signPage(ticket token, n network) (text, styleSheet string) {
	s := k.secrets.Load()
	signer := s.signer()
	defer s.signers.Put(signer)
	mac := signer.macOf(ticket, n)
	file := token{kindFile, ticket.number, ticket.time}
	if text = ticket.text(mac); ticket.kind != kindProvenTicket {
		mac = signer.macOf(file, n)
	}
	return text, file.text(mac)
}

// read returns the token of one of some kinds that a text is, if the keeper has signed it for a network.
func (k *Keeper) read(text string, n network, wanted ...kind) (t token, ok bool) {
	s := k.secrets.Load()
	t, had, ok := parse(text)
	if s == nil || !ok || !slices.Contains(wanted, t.kind) {
		return token{}, false
	}
	signer := s.signer()
	defer s.signers.Put(signer)
	if signer.isSigned(t, had, n) || s.former != nil && s.former.newSigner().isSigned(t, had, n) {
		return t, true
	}
	return token{}, false
}

// Redis sends a command whose key is the second word.
type secretStore interface {
	Command(ctx context.Context, key int8, words ...any) (any, error)
}

const (
	retryInterval = time.Second // until the secret is known
	pollInterval  = time.Minute // afterwards, for a secret that was changed by hand
)

// NewLocal returns a keeper of a secret that this process alone has.
func NewLocal() *Keeper { return newKeeper(random()) }

// newKeeper returns a keeper of a secret that stays.
func newKeeper(s secret) *Keeper {
	k := &Keeper{now: time.Now}
	k.secrets.Store(&secrets{secret: s})
	return k
}

// random returns a new secret.
func random() (s secret) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// NewShared returns a keeper of the secret of all nodes: derived of what hides keys, or in Redis. From there it is
// read once the keeper is started; until then, that of an earlier keeper is good, which may be nil. A function is
// told why no secret is known.
func NewShared(redis secretStore, format limiter.KeyFormat, earlier *Keeper, onUnread func(err error)) *Keeper {
	if format.Secret != "" {
		return newKeeper(secretOf(format.Secret))
	}
	k := &Keeper{now: time.Now, redis: redis, key: format.Reserved("challenge", "secret"), onUnread: onUnread}
	if earlier != nil {
		k.secrets.Store(earlier.secrets.Load())
	}
	k.polls.Life, k.end = context.WithCancel(context.Background())
	k.polls.Run = k.poll
	return k
}

// Ready reports whether the secret is known.
func (k *Keeper) Ready() bool { return k.secrets.Load() != nil }

// Start begins to read the secret. It is called by each configuration that has challenges.
func (k *Keeper) Start() { k.polls.Start(0) }

// Close ends the polls.
func (k *Keeper) Close() {
	if k.end != nil {
		k.end()
	}
}

// poll reads the secret, and writes the own one if there is none.
func (k *Keeper) poll() {
	next, err := pollInterval, k.sync(k.polls.Life)
	if !k.Ready() {
		next = retryInterval
		k.onUnread(err)
	}
	k.polls.Start(next)
}

var errSecret = errors.New("the secret of challenges in redis is not 64 hexadecimal digits; delete its key for a new one")

func (k *Keeper) sync(ctx context.Context) error {
	own := random()
	held := k.secrets.Load()
	if held != nil {
		own = held.secret
	}
	if _, err := k.redis.Command(ctx, 1, "set", k.key, hex.EncodeToString(own[:]), "nx"); err != nil {
		return err
	}
	reply, err := k.redis.Command(ctx, 1, "get", k.key)
	if err != nil {
		return err
	}
	text, _ := reply.(string)
	read, err := hex.DecodeString(text)
	if err != nil || len(read) != len(own) {
		return errSecret
	}
	if adopted := secret(read); held == nil {
		k.secrets.Store(&secrets{secret: adopted})
	} else if adopted != held.secret {
		k.secrets.Store(&secrets{secret: adopted, former: &held.secret})
	}
	return nil
}
