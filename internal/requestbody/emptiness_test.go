package requestbody_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// TestRead_emptiness looks whether bodies without a length have a byte, where there is no room for any, and reads them
// afterwards.
func TestRead_emptiness(t *testing.T) {
	const size = 3000
	for _, version := range versions {
		for _, length := range []int{0, 1, 2, size} {
			t.Run(fmt.Sprintf("%s/%d", version, length), func(t *testing.T) {
				body, account := textOf(length), requestbody.NewAccount(0)
				first := reader(t, account, wide(0), func(got requestbody.Reading) {
					checkReading(t, got, body, 0)
					account.SetLimit(room)
				})
				second := reader(t, account, wide(size), func(got requestbody.Reading) { checkReading(t, got, body, size) })
				for _, then := range []string{"", second} {
					account.SetLimit(0)
					q := request{version: version, url: theSite.url(version, "/digest"), body: body, chunked: true, trailer: true,
						header: http.Header{"X-First": {first}, "X-Second": {then}}}
					q.checkUnchanged(t, body)
				}
				checkGivenBack(t, account)
			})
		}
	}
}
