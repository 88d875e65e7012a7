#!/usr/bin/env bash
# resty, an HTTP client for Go, repeats no request that is refused with 429 or 503 when SetRetryCount alone is called, since it
# counts failed connections only. With a condition for 429 its version 2 does not read Retry-After.
#
# Seen on 2026-11-28 with resty v2.17.2 and Go 1.26.8, told to wait 2 s: "SetRetryCount: 429 after 1 request, with a condition: 200
# after 2 requests, early".
# Guess: SetRetryCount(3) repeats what is refused with 429, as told.
# Follows from it: docs/clients.md, "Web APIs".
# Ground: clients
#
# Use: resty-repeats-no-429.sh [version of the Go module]. Needs Go.
set -euo pipefail
version=${1:-v2.17.2}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >go.mod <<'END'
module finding

go 1.26
END
cat >main.go <<'END'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-resty/resty/v2"
)

func main() {
	told := func(response *resty.Response, _ error) bool { return response.StatusCode() == http.StatusTooManyRequests }
	plain := resty.New().SetRetryCount(3)
	conditional := resty.New().SetRetryCount(3).AddRetryCondition(told)
	fmt.Printf("SetRetryCount: %s, with a condition: %s\n", try(plain), try(conditional))
}

func try(client *resty.Client) string {
	var times []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		times = append(times, time.Now())
		if len(times) == 1 {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	response, err := client.R().Get(server.URL)
	switch {
	case err != nil:
		return err.Error()
	case len(times) < 2:
		return fmt.Sprintf("%d after 1 request", response.StatusCode())
	case times[1].Sub(times[0]) < 1900*time.Millisecond:
		return fmt.Sprintf("%d after %d requests, early", response.StatusCode(), len(times))
	}
	return fmt.Sprintf("%d after %d requests, as told", response.StatusCode(), len(times))
}
END
go get "github.com/go-resty/resty/v2@$version" >get.log 2>&1 || { cat get.log; exit 1; }
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
go list -m github.com/go-resty/resty/v2
got=$(go run .)
echo "$got"
[ "$got" = 'SetRetryCount: 429 after 1 request, with a condition: 200 after 2 requests, early' ] || { echo 'it has changed'; exit 1; }
