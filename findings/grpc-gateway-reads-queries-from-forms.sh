#!/usr/bin/env bash
# grpc-gateway runs what GET runs for a POST of a form too, without an option or a header, and reads the parameters from the
# form. A field user_id is read from user_id and from userId in both places.
#
# Seen on 2026-11-30 with grpc-gateway v2.33.0, a field type_url and a handler of GET alone: "GET ?type_url=: a, GET ?typeUrl=: a,
# POST type_url=: a, POST typeUrl=: a, POST {}: 501".
# Guess: a POST of a path that only GET has is 501, as with a body of JSON, unless X-HTTP-Method-Override asks for it.
# Follows from it: docs/keys.md, "Spellings": behind grpc-gateway a limit says no method, and a key {query.user_id} is empty for
# the other name and for a form: on_empty_key reject.
# Ground: readers
#
# Use: grpc-gateway-reads-queries-from-forms.sh [version of the Go module]. Needs Go.
set -euo pipefail
version=${1:-v2.33.0}
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
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/types/known/typepb"
)

// search does what a generated handler of GET does with the parameters.
func search(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	var field typepb.Field
	check(r.ParseForm())
	check(runtime.PopulateQueryParameters(&field, r.Form, utilities.NewDoubleArray(nil)))
	fmt.Fprint(w, field.GetTypeUrl())
}

func main() {
	mux := runtime.NewServeMux()
	check(mux.HandlePath(http.MethodGet, "/v1/search", search))
	server := httptest.NewServer(mux)
	defer server.Close()
	var seen []string
	for _, c := range []struct{ name, method, query, kind, body string }{
		{"GET ?type_url=", http.MethodGet, "?type_url=a", "", ""},
		{"GET ?typeUrl=", http.MethodGet, "?typeUrl=a", "", ""},
		{"POST type_url=", http.MethodPost, "", "application/x-www-form-urlencoded", "type_url=a"},
		{"POST typeUrl=", http.MethodPost, "", "application/x-www-form-urlencoded", "typeUrl=a"},
		{"POST {}", http.MethodPost, "", "application/json", "{}"},
	} {
		request, err := http.NewRequest(c.method, server.URL+"/v1/search"+c.query, strings.NewReader(c.body))
		check(err)
		request.Header.Set("Content-Type", c.kind)
		response, err := http.DefaultClient.Do(request)
		check(err)
		body, err := io.ReadAll(response.Body)
		check(err)
		check(response.Body.Close())
		result := string(body)
		if response.StatusCode != http.StatusOK {
			result = fmt.Sprint(response.StatusCode)
		}
		seen = append(seen, c.name+": "+result)
	}
	fmt.Println(strings.Join(seen, ", "))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
END
go get "github.com/grpc-ecosystem/grpc-gateway/v2@$version" >get.log 2>&1 || { cat get.log; exit 1; }
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
echo "grpc-gateway $(go list -m -f '{{.Version}}' github.com/grpc-ecosystem/grpc-gateway/v2)"
got=$(go run .)
echo "$got"
want='GET ?type_url=: a, GET ?typeUrl=: a, POST type_url=: a, POST typeUrl=: a, POST {}: 501'
[ "$got" = "$want" ] || { echo 'it has changed'; exit 1; }
