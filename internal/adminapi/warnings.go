package adminapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Bounds of a [WarningLog].
const (
	mostWarnings    = 50   // warnings
	mostWarningText = 1000 // bytes of a text, and of details
)

// Warning is a line of the log that came once or more often. Details are its fields.
type Warning struct {
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Times   int64     `json:"times"`
	Text    string    `json:"text"`
	Details string    `json:"details,omitempty"`
}

// WarningLog keeps the last warnings that the module has logged, for the live page. They are kept whatever levels the
// log writes. The zero value is empty. It is safe for concurrent use.
type WarningLog struct {
	mu   sync.Mutex
	kept []Warning // the one that came last is the last
}

// Watch returns a logger that writes as another does, whose warnings and errors are kept.
func (l *WarningLog) Watch(logger *zap.Logger) *zap.Logger {
	return logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(core, &warningKeeper{LevelEnabler: zapcore.WarnLevel, log: l})
	}))
}

// List returns the warnings, the one that came last first.
func (l *WarningLog) List() []Warning {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := append([]Warning{}, l.kept...) // not nil, which JSON writes as null
	slices.Reverse(list)
	return list
}

// add keeps a warning. One that came before moves up. If there are too many, the one that came first of all goes.
func (l *WarningLog) add(at time.Time, text, details string) {
	text, details = cutWarning(text), cutWarning(details)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := Warning{First: at.UTC(), Text: text, Details: details}
	if known := slices.IndexFunc(l.kept, func(k Warning) bool { return k.Text == text && k.Details == details }); known >= 0 {
		w = l.kept[known]
		l.kept = slices.Delete(l.kept, known, known+1)
	}
	w.Last = at.UTC()
	w.Times++
	l.kept = append(l.kept, w)
	if len(l.kept) > mostWarnings {
		l.kept = slices.Delete(l.kept, 0, 1)
	}
}

// cutWarning bounds a text, and replaces bytes that are no characters.
func cutWarning(text string) string {
	if len(text) > mostWarningText {
		text = text[:mostWarningText] + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

// warningKeeper is the core of a logger that keeps what it is given.
type warningKeeper struct {
	zapcore.LevelEnabler
	log    *WarningLog
	fields []zap.Field
}

// With implements [zapcore.Core].
func (k *warningKeeper) With(fields []zap.Field) zapcore.Core {
	return &warningKeeper{k.LevelEnabler, k.log, slices.Concat(k.fields, fields)}
}

// Check implements [zapcore.Core].
func (k *warningKeeper) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !k.Enabled(e.Level) {
		return c
	}
	return c.AddCore(e, k)
}

// Write implements [zapcore.Core].
func (k *warningKeeper) Write(e zapcore.Entry, fields []zap.Field) error {
	parts := make([]string, 0, len(k.fields)+len(fields))
	for _, f := range slices.Concat(k.fields, fields) {
		encoded := zapcore.NewMapObjectEncoder()
		f.AddTo(encoded)
		if value, found := encoded.Fields[f.Key]; found && value != "" {
			parts = append(parts, fmt.Sprintf("%s: %v", f.Key, value))
		}
	}
	k.log.add(e.Time, e.Message, strings.Join(parts, ", "))
	return nil
}

// Sync implements [zapcore.Core].
func (*warningKeeper) Sync() error { return nil }
