package adminapi

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// texts returns the warnings, with how often each came.
func (l *WarningLog) texts() (texts []string) {
	for _, w := range l.List() {
		texts = append(texts, strings.TrimSpace(fmt.Sprint(w.Times, " ", w.Text, " ", w.Details)))
	}
	return texts
}

// TestWarningLog keeps warnings and errors of a logger that writes nothing, the last first, and equal ones once.
func TestWarningLog(t *testing.T) {
	var log WarningLog
	logger := log.Watch(zap.NewNop()).With(zap.String("a", "b"))
	logger.Info("nothing")
	logger.Warn("first", zap.Error(errors.New("why")))
	logger.Error("second", zap.Int("n", 5), zap.String("empty", ""))
	assert.Equal(t, strings.Join(log.texts(), "\n"), "1 second a: b, n: 5\n1 first a: b, error: why", "the warnings")
	logger.Warn("first", zap.Error(errors.New("why")))
	logger.Warn("first", zap.Error(errors.New("other")))
	assert.Equal(t, strings.Join(log.texts(), "\n"), "1 first a: b, error: other\n2 first a: b, error: why\n1 second a: b, n: 5", "the warnings")
	first := log.List()[1]
	assert.ErrorIf(t, !first.First.Before(first.Last) || first.Last.After(time.Now()), "from %v to %v", first.First, first.Last)
}

// TestWarningLog_bounds has more and longer warnings than are kept, of bytes that are no text, from several goroutines.
func TestWarningLog_bounds(t *testing.T) {
	var log WarningLog
	logger := log.Watch(zap.NewNop())
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range mostWarnings {
				logger.Warn(fmt.Sprintf("%d of %d \xff", j, i), zap.String("long", strings.Repeat("é", mostWarningText)))
			}
		})
	}
	all.Wait()
	list := log.List()
	assert.Equal(t, len(list), mostWarnings, "the warnings")
	for _, w := range list {
		assert.ErrorIf(t, len(w.Details) > mostWarningText+6 || !strings.HasSuffix(w.Text, "�"), "%d bytes of details, %q", len(w.Details), w.Text)
	}
}
