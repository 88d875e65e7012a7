#!/usr/bin/env bash
# The official SDK of MCP for Go drops the body of a 429, be it a JSON-RPC error with the request's id, and reports the words
# of the status with the code -32005; the same error under 400 or 200 comes through with its message, code and data.
#
# Seen on 2026-11-28 with modelcontextprotocol/go-sdk v1.8.0 and Go 1.26.8: "429: Too Many Requests (-32005), 400: Wait 3
# seconds. (-32000), 200: Wait 3 seconds. (-32000)".
# Guess: what the protocol calls an error reaches the program whatever status it has, or never.
# Follows from it: a refused call of MCP gets the status 200: docs/responses.md, "Bodies of denials".
# Ground: models
#
# Use: go-mcp-hides-what-a-429-says.sh [version of the Go module]. Needs Go.
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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	implementation := &mcp.Implementation{Name: "finding", Version: "1.0.0"}
	served := mcp.NewServer(implementation, nil)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return served }, nil)
	status := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var call struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &call)
		if call.Method != "tools/call" {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"Wait 3 seconds.","data":{"retry_after":3}}}`, call.ID)
	}))
	session, err := mcp.NewClient(implementation, nil).Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: server.URL}, nil)
	if err != nil {
		panic(err)
	}
	var got []string
	for _, status = range []int{429, 400, 200} {
		_, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "finding"})
		var told *jsonrpc.Error
		if !errors.As(err, &told) {
			panic(err)
		}
		message := http.StatusText(status)
		if strings.Contains(err.Error(), "Wait 3 seconds.") {
			message = "Wait 3 seconds."
		}
		got = append(got, fmt.Sprintf("%d: %s (%d)", status, message, told.Code))
	}
	fmt.Println(strings.Join(got, ", "))
}
END
go get "github.com/modelcontextprotocol/go-sdk@$version" >get.log 2>&1 || { cat get.log; exit 1; }
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
go list -m github.com/modelcontextprotocol/go-sdk
got=$(go run .)
echo "$got"
[ "$got" = '429: Too Many Requests (-32005), 400: Wait 3 seconds. (-32000), 200: Wait 3 seconds. (-32000)' ] || { echo 'it has changed'; exit 1; }
