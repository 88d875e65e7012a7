package storepool

import (
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

//go:embed ask.lua
var askScript string

//go:embed answer.lua
var answerScript string

const (
	// questionLife is for how long a question is asked. A node that starts meanwhile answers it too.
	questionLife = 10 * time.Second

	// answerLife is for how long answers are kept.
	answerLife = time.Minute

	// SurveyPatience is how long the one who asks waits for answers: for four polls.
	SurveyPatience = 2 * time.Second

	// mostQuestions is how many are asked at once.
	mostQuestions = 16

	// mostAnswer bounds an answer, in bytes, mostAnswers all that one question gets.
	mostAnswer, mostAnswers = 512 << 10, 64 << 20

	// mostNames bounds the names of those who answered, in bytes: 1,000 nodes.
	mostNames = 27_000
)

// ErrSurveyBusy is the error of one more question than can be asked at once.
var ErrSurveyBusy = errors.New("the nodes are asked too much at once; ask again in ten seconds")

// Survey asks all nodes of a Redis what each of them knows, collects their answers, and answers for this process. A node sees that there
// is a question by the version of the overrides, which each node polls: while there is none, nothing is read or written besides. Versions
// of this module without surveys poll the same text, and notice nothing. Questions and answers lie in one slot with the overrides, and
// expire. All needs the rights get, set and eval. [NewSurvey] makes one. It is safe for concurrent use.
type Survey struct {
	store  *redis.Store
	format limiter.KeyFormat
	node   string
	answer func(subject string) []byte

	done *clock.EventFilter // questions that need no answer of this process

	mu   sync.Mutex
	seen map[string]time.Time // when another node was last among those that have answered, by its name
}

// NewSurvey returns what asks and answers by a store. The node names the process, as [rand.Text] does. The function answers a
// question; nil is no answer, and one above [mostAnswer] is left out.
func NewSurvey(store *redis.Store, format limiter.KeyFormat, node string, answer func(subject string) []byte) *Survey {
	return &Survey{store: store, format: format, node: node, answer: answer, done: clock.NewEventFilter(), seen: map[string]time.Time{}}
}

const tag = "overrides" // the slot of the version

// name returns a name in the slot of the overrides.
func (s *Survey) name(parts ...string) string {
	return s.format.Reserved(tag, strings.Join(parts, ":"))
}

func (s *Survey) questions() string { return s.name("asked") }

// roster names the key that says who has answered a question.
func (s *Survey) roster(id string) string { return s.name("answered", id) }

// answerOf names the key of a node's last answer about a subject, so that questions in a row need no more memory.
func (s *Survey) answerOf(node, subject string) string { return s.name("answer", node, subject) }

// eval runs a script on two keys.
func (s *Survey) eval(ctx context.Context, script, key1, key2 string, args ...any) (any, error) {
	return s.store.Command(ctx, 3, append([]any{"eval", script, 2, key1, key2}, args...)...)
}

// get reads a text, empty if there is none.
func (s *Survey) get(ctx context.Context, key string) (string, error) {
	reply, err := s.store.Command(ctx, 1, "get", key)
	text, _ := reply.(string)
	return text, err
}

// The forms of a node's name and of a question's id, and of a subject, for which the name of a policy is one.
var (
	idForm      = regexp.MustCompile(`^[A-Z2-7]{26}$`)
	subjectForm = regexp.MustCompile(`^[A-Za-z0-9_*-]{1,64}$`)
)

// Ask asks the other nodes about a subject, of letters, digits, -, _ and *, and returns their answers after [SurveyPatience].
// If Redis does not answer, the error wraps [limiter.ErrUndecided], and there may be some answers.
func (s *Survey) Ask(ctx context.Context, subject string) (answers []string, err error) {
	id := rand.Text()
	s.needsAnswer(id) // this process needs none of itself
	reply, err := s.eval(ctx, askScript, s.name("version"), s.questions(), id, subject, questionLife.Milliseconds(), mostQuestions)
	switch {
	case err != nil:
		return nil, err
	case reply == "full":
		return nil, ErrSurveyBusy
	case reply != "asked":
		err = fmt.Errorf("the key %s in redis is not of this module: delete it", s.name("version"))
		return nil, &limiter.UndecidedError{Kind: "value", Err: err}
	}
	wait := time.NewTimer(SurveyPatience)
	defer wait.Stop()
	select {
	case <-wait.C:
		return s.collect(ctx, id, subject)
	case <-ctx.Done():
		return nil, &limiter.UndecidedError{Kind: "timeout", Err: ctx.Err()}
	}
}

// collect reads the answers to a question.
func (s *Survey) collect(ctx context.Context, id, subject string) (answers []string, err error) {
	names, err := s.get(ctx, s.roster(id))
	if err != nil {
		return nil, err
	}
	size := 0
	for node := range strings.Lines(names[:min(len(names), mostNames)]) {
		if node = strings.TrimSuffix(node, "\n"); !idForm.MatchString(node) || node == s.node {
			continue
		}
		s.note(node)
		answer, err := s.get(ctx, s.answerOf(node, subject))
		if size += len(answer); err != nil || size > mostAnswers {
			return answers, err
		}
		if answer != "" {
			answers = append(answers, answer)
		}
	}
	return answers, nil
}

// note keeps that a node has answered.
func (s *Survey) note(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[node] = time.Now()
}

// Others returns how many other nodes have answered a question of this process in the last [answerLife]: one that has left
// since, or has started again under another name, is among them for so long.
func (s *Survey) Others() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.seen, func(_ string, at time.Time) bool { return time.Since(at) > answerLife })
	return len(s.seen)
}

// Look answers the questions that this process has not answered. It is called when the version of the overrides in Redis
// is another one than before.
func (s *Survey) Look(ctx context.Context) error {
	text, err := s.get(ctx, s.questions())
	if err != nil {
		return err
	}
	seen := 0
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if seen++; seen > mostQuestions || len(words) != 3 {
			return nil // it is foreign
		}
		id, subject := words[1], words[2]
		if !idForm.MatchString(id) || !subjectForm.MatchString(subject) || !s.needsAnswer(id) {
			continue
		}
		answer := s.answer(subject)
		if len(answer) == 0 || len(answer) > mostAnswer {
			continue
		}
		_, err := s.eval(ctx, answerScript, s.roster(id), s.answerOf(s.node, subject), s.node, answer, answerLife.Milliseconds(), mostNames)
		if err != nil {
			s.done.Forget(id)
			return err
		}
	}
	return nil
}

// needsAnswer reports whether a question needs an answer of this process, for the first time.
func (s *Survey) needsAnswer(id string) bool { return s.done.Pass(time.Now(), 2*questionLife, id) }
