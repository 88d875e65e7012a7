package rule

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// UnfoldedKey returns the key of a request by its values as Caddy has them, as with [KeyTemplate.Raw]. It is empty where a value is absent
// or unreadable.
func (t *KeyTemplate) UnfoldedKey(r *http.Request, repl *caddy.Replacer) limiter.EncodedKey {
	raw := *t
	raw.Raw = true
	return raw.key(&request{Request: r, repl: repl})
}

// MatchesUnfolded reports whether Match selects a request by its path as it came, in no other form.
func (r *Rule) MatchesUnfolded(request *http.Request) bool {
	if !r.match.comparesPaths || len(r.MatchBody) > 0 {
		return true
	}
	matches, err := r.match.sets.AnyMatchWithError(request)
	return matches || err != nil
}

// Secrets lists the placeholders of keys that access logs do not have, as a Caddyfile has them: cookies, credentials, values of the body.
func (t *KeyTemplate) Secrets() (names []string) {
	secret := []fieldKind{cookieField, authorizationField, credentialField, credentialUserField, bodyField}
	for i := range t.parts {
		if part := &t.parts[i]; slices.Contains(secret, part.field.kind) {
			names = append(names, ShortNames("{"+part.Name+"}"))
		}
	}
	return names
}
