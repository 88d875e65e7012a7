#!/usr/bin/env bash
# go-ethereum's server of JSON-RPC runs each call of an array, notifications too, also where the Content-Type says utf-16 and
# where the array has 600 levels. It takes no other case of a name, and no array within the array.
#
# Seen on 2026-11-29 with go-ethereum v1.17.10 and Go 1.26.8: "batch 3, notifications 3, utf-16 3, levels 3, Method 0, within 0".
# Guess: a body in another charset than UTF-8 is refused, and levels are bounded.
# Follows from it: docs/caddyfile.md, "Values of the body": weight calls has a number for bodies that the limit cannot read.
# Ground: batches
#
# Use: go-ethereum-runs-batches-of-other-charsets.sh [version of the Go module]. Needs Go.
set -euo pipefail
version=${1:-v1.17.10}
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
	"strings"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/rpc"
)

type service struct{ ran atomic.Int64 }

func (s *service) Add() int64 { return s.ran.Add(1) }

func main() {
	var s service
	handler := rpc.NewServer()
	if err := handler.RegisterName("finding", &s); err != nil {
		panic(err)
	}
	server := httptest.NewServer(handler)
	ask := func(contentType, begin, member, end string) int64 {
		s.ran.Store(0)
		body := begin + "[" + member + "," + member + "," + member + "]" + end
		response, err := http.Post(server.URL, contentType, strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		return s.ran.Load()
	}
	const call, json = `{"jsonrpc":"2.0","id":1,"method":"finding_add"}`, "application/json"
	levels := strings.Replace(call, "}", `,"x":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)+"}", 1)
	fmt.Printf("batch %d, notifications %d, utf-16 %d, levels %d, Method %d, within %d\n",
		ask(json, "", call, ""), ask(json, "", strings.Replace(call, `"id":1,`, "", 1), ""),
		ask(json+"; charset=utf-16", "", call, ""), ask(json, "", levels, ""),
		ask(json, "", strings.Replace(call, "method", "Method", 1), ""), ask(json, "[", call, "]"))
}
END
go get "github.com/ethereum/go-ethereum@$version" >get.log 2>&1 || { cat get.log; exit 1; }
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
go list -m github.com/ethereum/go-ethereum
got=$(go run .)
echo "$got"
[ "$got" = 'batch 3, notifications 3, utf-16 3, levels 3, Method 0, within 0' ] || { echo 'it has changed'; exit 1; }
