#!/usr/bin/env bash
# The client of Kubernetes repeats a refused request ten times if Retry-After is a number of seconds, and never if it is a
# date, as HTTP allows, or a fraction.
#
# Seen on 2026-11-28 with k8s.io/client-go v0.37.2 and Go 1.26.8: "Retry-After 1: 11 requests, 0.5: 1 request, date: 1
# request, none: 1 request".
# Guess: both forms of HTTP are read, and the waits grow without a Retry-After.
# Follows from it: Retry-After is whole seconds, at least 1: docs/responses.md, "Headers".
# Ground: clients
#
# Use: go-kubernetes-takes-dates-for-never.sh [version of the Go module]. Needs Go.
set -euo pipefail
version=${1:-v0.37.2}
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
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

func main() {
	soon := time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)
	var got []string
	for _, retry := range [][2]string{{"1", "1"}, {"0.5", "0.5"}, {"date", soon}, {"none", ""}} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			if retry[1] != "" {
				w.Header().Set("Retry-After", retry[1])
			}
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, "Too many requests.")
		}))
		client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
			GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: serializer.NewCodecFactory(runtime.NewScheme()),
		}})
		if err != nil {
			panic(err)
		}
		_ = client.Get().AbsPath("/version").Do(context.Background()).Error()
		server.Close()
		got = append(got, fmt.Sprintf("%s: %d requests", retry[0], requests))
	}
	fmt.Println("Retry-After", strings.ReplaceAll(strings.Join(got, ", "), " 1 requests", " 1 request"))
}
END
go get "k8s.io/client-go@$version" >get.log 2>&1 || { cat get.log; exit 1; }
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
go list -m k8s.io/client-go
got=$(go run .)
echo "$got"
[ "$got" = 'Retry-After 1: 11 requests, 0.5: 1 request, date: 1 request, none: 1 request' ] || { echo 'it has changed'; exit 1; }
