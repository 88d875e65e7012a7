package bodyvalue

import (
	"os"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestReasons wants a label of its own and a text for each reason, and the page of the metrics to list them.
func TestReasons(t *testing.T) {
	text := assert.NoError(os.ReadFile("../../docs/metrics.md"))(t)
	_, chapter, found := strings.Cut(string(text), "\n## Unreadable values\n")
	assert.FatalIf(t, !found, "the page has no such chapter")
	labels := map[string]UnreadableReason{}
	for r := ReasonNone + 1; r < reasons; r++ {
		label := r.String()
		earlier, taken := labels[label]
		assert.ErrorIf(t, label == "" || taken, "the label of %d is %q, as that of %d", r, label, earlier)
		assert.ErrorIf(t, !strings.Contains(chapter, "`"+label+"`"), "docs/metrics.md does not list %s", label)
		assert.ErrorIf(t, r.Text() == "", "%s has no text", label)
		labels[label] = r
	}
}

// TestReason_Text has texts name each of what their reasons may mean.
func TestReason_Text(t *testing.T) {
	for reason, parts := range map[UnreadableReason][]string{
		ReasonCase:   {"User_ID", "userId"},
		ReasonFlat:   {`\.`, "without the first"},
		ReasonPrefix: {"list", "member"},
	} {
		for _, part := range parts {
			assert.ErrorIf(t, !strings.Contains(reason.Text(), part), "the text of %s, %q, lacks %q", reason, reason.Text(), part)
		}
	}
}
