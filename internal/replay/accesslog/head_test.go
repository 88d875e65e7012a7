package accesslog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// headLines makes a log of what stands before the times.
func headLines(heads ...string) string {
	var log strings.Builder
	for i, head := range heads {
		fmt.Fprintf(&log, "%s [%s] \"GET /%d HTTP/1.1\" 200 5 \"-\" \"x\"\n", head, clfTime(i), i)
	}
	return log.String()
}

// TestHeadLayout reads files in which clients have written what looks like another client, and wants the clients in the
// order of the lines. Lines that are unread have none.
func TestHeadLayout(t *testing.T) {
	for _, tt := range []struct {
		name  string
		heads []string
		want  string
		place string
	}{
		{"common", []string{"1.1.1.1 - -", "2.2.2.2 - bob", "3.3.3.3 - 9.9.9.9"}, "1.1.1.1 2.2.2.2 3.3.3.3", "the first word"},
		{"host names", []string{"a.example - -", "b.example - bob smith", "1.1.1.1 - -"}, "a.example b.example 1.1.1.1", "the first word"},
		{"users with blanks", []string{"1.1.1.1 - -", "2.2.2.2 - 9.9.9.9 - - x", "3.3.3.3 - bob [01/Jan/2020"}, "1.1.1.1 2.2.2.2 3.3.3.3", "the first word"},
		{"without a user", []string{"1.1.1.1 - ", "2.2.2.2 - ", "3.3.3.3 - bob"}, "1.1.1.1 2.2.2.2 3.3.3.3", "the first word"},
		{"a host first", []string{"a.example 1.1.1.1 - -", "a.example:80 2.2.2.2 - -", "9.9.9.9 3.3.3.3 - -"}, "1.1.1.1 2.2.2.2 3.3.3.3", "the second word"},
		{"hosts that are addresses", []string{"9.9.9.9 1.1.1.1 - -", "9.9.9.9 2.2.2.2 - -"}, "1.1.1.1 2.2.2.2", "the second word"},
		{"a host with blanks", []string{"a.example 1.1.1.1 - -", "b.example 2.2.2.2 - bob x", "c 9.9.9.9 - x 3.3.3.3 - -", "c 3.3.3.3 - -"}, "1.1.1.1 2.2.2.2 3.3.3.3", "the second word"},
		{"a host with blanks and a user", []string{"a.example 1.1.1.1 - -", "c 9.9.9.9 - x 3.3.3.3 - a b", "c 3.3.3.3 - -"}, "1.1.1.1 3.3.3.3", "the second word"},
		{"a host behind", []string{"1.1.1.1 a.example -", "2.2.2.2 9.9.9.9:80 -", "3.3.3.3 - -"}, "1.1.1.1 2.2.2.2 3.3.3.3", "the first word"},
		{"X-Forwarded-For and the peer", []string{"- 1.1.1.1 - -", "9.9.9.9, 8.8.8.8 2.2.2.2 - -", "9.9.9.9 - x 3.3.3.3 - -", "9.9.9.9 4.4.4.4 - -"}, "1.1.1.1 2.2.2.2 4.4.4.4", "the second word"},
		{"X-Forwarded-For", []string{"9.9.9.9, 1.1.1.1 - -", "2.2.2.2 - -", "9.9.9.9 - x, 3.3.3.3 - -", "x, 4.4.4.4 - -", "5.5.5.5 - bob x"}, "1.1.1.1 2.2.2.2 4.4.4.4 5.5.5.5", "the last address in the first word"},
		{"X-Forwarded-For, mostly none", []string{"- - -", "- - -", "1.1.1.1 - -", "- - -", "9.9.9.9\\x22 200 5 - -", "2.2.2.2 - bob x"}, "  1.1.1.1  2.2.2.2", "the first word"},
		{"ports", []string{"1.1.1.1:80 - -", "[::2]:443 - -", "[::3] - -", "fe80::4%eth0 - -", "::ffff:5.5.5.5 - -", "0:0:0:0:0:0:0:6 - -"}, "1.1.1.1 ::2 ::3 fe80::4 5.5.5.5 ::6", "the first word"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, s := readText(t, headLines(tt.heads...))
			var got []string
			for i := range entries {
				got = append(got, entries[i].Client)
			}
			assert.Equal(t, strings.Join(got, " "), tt.want, "clients, %+v", s.Skipped)
			assert.Equal(t, s.Files[0].Client, tt.place, "the place of the client")
			assert.Equal(t, s.Total().Malformed, int64(len(tt.heads)-len(got)), "unread lines")
		})
	}
}

// TestHeadLayout_decides_once reads a line that alone would be read otherwise.
func TestHeadLayout_decides_once(t *testing.T) {
	heads := []string{}
	for i := range 2000 {
		heads = append(heads, fmt.Sprintf("a.example 10.0.0.%d - -", i%250))
	}
	heads = append(heads, "10.9.9.9 x - -", "10.9.9.9 - -")
	entries, s := readText(t, headLines(heads...))
	assert.FatalIf(t, len(entries) != 2001 || entries[2000].Client != "x" || s.Total().Malformed != 1, "%d entries, %+v", len(entries), s.Skipped)
}

func TestEntry_forwarded(t *testing.T) {
	for _, tt := range []struct{ name, log, forwarded string }{
		{"beside the peer", headLines("- 1.1.1.1 - -", "9.9.9.9, 8.8.8.8 2.2.2.2 - -"), "9.9.9.9, 8.8.8.8"},
		{"behind the agent", strings.ReplaceAll(headLines("1.1.1.1 - -", "2.2.2.2 - -"), "\"x\"\n", "\"x\" \"9.9.9.9\"\n"), "9.9.9.9"},
		{"a host behind the agent", strings.ReplaceAll(headLines("1.1.1.1 - -", "2.2.2.2 - -"), "\"x\"\n", "\"x\" \"9.9.9.9\"\n") +
			strings.ReplaceAll(headLines("3.3.3.3 - -"), "\"x\"\n", "\"x\" \"a.example\"\n"), ""},
	} {
		entries, _ := readText(t, tt.log)
		assert.FatalIf(t, len(entries) < 2, "%s: %d entries", tt.name, len(entries))
		e := entries[len(entries)-1]
		for _, one := range entries {
			if one.Client == "2.2.2.2" {
				e = one
			}
		}
		assert.Equal(t, e.Header.Get("X-Forwarded-For"), tt.forwarded, "%s", tt.name)
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"1.2.3.4": "1.2.3.4", "1.2.3.4,": "1.2.3.4", "1.2.3.4:80": "1.2.3.4", "::1": "::1", "[::1]": "::1", "[::1]:80": "::1", "::ffff:1.2.3.4": "1.2.3.4",
		"[::ffff:1.2.3.4]:80": "1.2.3.4", "fe80::1%eth0": "fe80::1", "2001:DB8::1": "2001:db8::1",
		"": "", "-": "", "a.example": "", "1.2.3": "", "1.2.3.256": "", "01.2.3.4": "", "1.2.3.4.5": "", "1.2.3.4:x": "", "[1.2.3.4]": "", "unix:": "", "@": "",
		strings.Repeat("1", 1<<20): "", strings.Repeat(":", 1<<20): "",
	} {
		got, ok := address(text)
		if !ok {
			assert.Equal(t, got, text, "what is no address stays")
			got = ""
		}
		assert.Equal(t, got, want, "%.40s", text)
	}
}
