package bodyvalue

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// valueText shows a value in the tables of these tests.
func valueText(v Value) string {
	switch v.Kind() {
	case KindText:
		return "=" + v.Text()
	case KindUnreadable:
		return v.Reason().String()
	default:
		return "absent"
	}
}

// TestValue_Exact has texts whose blanks count.
func TestValue_Exact(t *testing.T) {
	for text, want := range map[string]string{
		"": "=", "a b": "=a b", " a": "blank", "a\u00a0": "blank", "a\r\n": "blank", "\u3000": "blank", "\u200ba": "blank", "a\u3164": "blank", "\U0001d159a": "blank",
		"a\u200bb\u3164c": "=a\u200bb\u3164c", "\u0301a\uac00": "=\u0301a\uac00", "\x00": "control",
	} {
		assert.Equal(t, valueText(New(text).Exact()), want, "%q", text)
	}
	assert.Equal(t, New("a\xff").Reason(), ReasonUTF8, "a text that is no UTF-8")
	assert.Equal(t, Value{}.Exact(), Value{}, "an absent value")
	assert.Equal(t, Unreadable(ReasonNone).Kind(), KindAbsent, "the kind of what is unreadable for no reason")
}

// TestReason_Status has a label and a status for each reason.
func TestReason_Status(t *testing.T) {
	labels := map[string]bool{}
	for reason := range reasons {
		assert.ErrorIf(t, labels[reason.String()], "%d has the label %q of another one", reason, reason)
		labels[reason.String()] = true
		want := http.StatusBadRequest
		switch {
		case reason == ReasonNone:
			want = 0
		case reason < ReasonSize:
			want = http.StatusUnsupportedMediaType
		case reason == ReasonSize:
			want = http.StatusRequestEntityTooLarge
		}
		assert.Equal(t, reason.Status(), want, "the status of %q", reason)
	}
}

func TestValue_Foldable(t *testing.T) {
	for length, want := range map[int]UnreadableReason{0: ReasonNone, 64 << 10: ReasonNone, 64<<10 + 1: reasonLong} {
		got := New(strings.Repeat("b", length)).Foldable()
		assert.ErrorIf(t, got.Reason() != want || want == ReasonNone && len(got.Text()) != length, "%d bytes: %q", length, got.Reason())
	}
	assert.Equal(t, Unreadable(ReasonSize).Foldable().Reason(), ReasonSize, "the reason of an unreadable value")
}

func TestValue_Cut(t *testing.T) {
	for _, row := range []struct {
		text   string
		length int
		want   string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"é", 1, ""}, {"", 0, ""}} {
		cut := New(row.text).Cut(row.length)
		assert.ErrorIf(t, cut.Text() != row.want || cut.Kind() != KindText, "%q cut to %d bytes: %q", row.text, row.length, cut.Text())
	}
	assert.Equal(t, Unreadable(ReasonSize).Cut(0).Reason(), ReasonSize, "the reason of a value that is cut")
}
