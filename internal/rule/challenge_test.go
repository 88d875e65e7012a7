package rule

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// TestChallenge_Admit_unique gives hostile keys and passes a key each.
func TestChallenge_Admit_unique(t *testing.T) {
	hostile := rapid.OneOf(rapid.StringN(0, 40, 200), rapid.SampledFrom([]string{"", "a", "%#3", "a%#3", "%#", "#3", "%", "{", "3"}))
	pass := Challenge{Passes: MaxPasses}
	rapid.Check(t, func(t *rapid.T) {
		type client struct {
			value  string
			number int // of a pass; below 0: none
		}
		clients := map[client]bool{}
		seen := map[limiter.EncodedKey]client{}
		template, err := ParseKey(rapid.SampledFrom([]string{"{a}", "x{a}", "{a}#3", "%{a}%#3"}).Draw(t, "template"), Prefixes{})
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			c := client{hostile.Draw(t, "value"), rapid.IntRange(-1, 11).Draw(t, "number")}
			if c.value == "" || clients[c] {
				continue
			}
			clients[c] = true
			var key []byte
			for _, part := range template.parts {
				if part.Name == "" {
					key = append(key, part.literal...)
				} else {
					key = template.appendEncoded(key, c.value)
				}
			}
			check := limiter.Check{Key: limiter.AsEncoded(string(key))}
			if c.number >= 0 {
				plain := check.Key
				pass.Admit(&check, strconv.Itoa(c.number), nil, false)
				if got, number, isPass := CutPass(check.Key); len(key)+5 < 128 && (!isPass || got != plain || number != strconv.Itoa(c.number)) {
					t.Fatalf("%q is cut to %q and %q", check.Key, got, number)
				}
			}
			if earlier, found := seen[check.Key]; found {
				t.Fatalf("%v and %v share the key %q", earlier, c, check.Key)
			}
			seen[check.Key] = c
		}
	})
}
