#!/usr/bin/env bash
# A client of MCP whose first request, server/discover, is refused with 429 takes the server for an older one: it goes on at
# once with the protocol of 2025, sessions and streams included, and says nothing. The official SDK for TypeScript, run by
# hand, does so too if it negotiates.
#
# Seen on 2026-11-28 with modelcontextprotocol/go-sdk v1.8.0 and Go 1.26.8: "not refused: 2026-07-28 after 1 request, refused
# once: 2025-11-25 after 3 requests".
# Guess: connecting fails, or the client asks again after Retry-After.
# Follows from it: only calls of tools are limited for MCP: docs/clients.md, "Model APIs".
# Ground: models
#
# Use: go-mcp-downgrades-after-429.sh [version of the Go module]. Needs Go.
set -euo pipefail
version=${1:-v1.8.0}
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
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	fmt.Printf("not refused: %s, refused once: %s\n", connect(0), connect(1))
}

// connect returns which protocol a client speaks after it has connected to a server that refuses its first requests.
func connect(refused int32) string {
	implementation := &mcp.Implementation{Name: "finding", Version: "1.0.0"}
	served := mcp.NewServer(implementation, nil)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return served }, &mcp.StreamableHTTPOptions{Stateless: true})
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) <= refused {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests.", http.StatusTooManyRequests)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	transport := &mcp.StreamableClientTransport{Endpoint: server.URL, DisableStandaloneSSE: true}
	session, err := mcp.NewClient(implementation, nil).Connect(context.Background(), transport, nil)
	if err != nil {
		return "failed: " + err.Error()
	}
	defer session.Close()
	return fmt.Sprintf("%s after %d requests", session.InitializeResult().ProtocolVersion, requests.Load())
}
END
go get "github.com/modelcontextprotocol/go-sdk@$version" >get.log 2>&1 || { cat get.log; exit 1; }
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
go list -m github.com/modelcontextprotocol/go-sdk
got=$(go run .)
got=${got/ 1 requests/ 1 request}
echo "$got"
[ "$got" = 'not refused: 2026-07-28 after 1 request, refused once: 2025-11-25 after 3 requests' ] || { echo 'it has changed'; exit 1; }
