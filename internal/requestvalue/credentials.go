package requestvalue

import (
	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// The parameters of the query that are credentials: RFC 6750, section 2.3, and the usual name of a key.
var credentialParameters = []Name{ParseName("access_token"), ParseName("api_key")}

// Credential returns the one credential of a request: of Authorization, X-Api-Key, or a parameter access_token or api_key of
// the query. One that stands in two places is one; two that differ are unreadable, as is a request with an unreadable one.
func Credential(header http.Header, query string, secret []byte) bodyvalue.Value {
	found := Authorization(header["Authorization"], secret).Or(Header(header["X-Api-Key"]))
	for i := range credentialParameters {
		if query == "" {
			break
		}
		found = found.Or(Query(query, credentialParameters[i]))
	}
	return found
}
