#!/usr/bin/env bash
# curl 7.88.1 (Debian 12) loses the answer of a server that refuses an upload over HTTP/2 before it has read it: exit 92,
# "stream was not closed cleanly", and no status.
#
# Seen on 2026-11-27 with curl 7.88.1 and Go 1.26.8, of 20 uploads of 3 MB to a server that answers 429 at once: 20 lost,
# whether the answer has a body or none; over HTTP/1.1 none.
# Guess: a client that is told 429 shows 429, by each protocol.
# Follows from it: DESIGN.md, "Responses": a line of text in a refusal helps where uploads are small, and cures nothing.
# Ground: clients
#
# Use: curl-http2-loses-refused-uploads.sh [path of another curl]. Needs Go and curl.
set -euo pipefail
curl=${1:-curl}
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
"$curl" --version | sed -n 1p
cat >go.mod <<'END'
module finding

go 1.26
END
cat >main.go <<'END'
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		if r.URL.Path == "/line" {
			io.WriteString(w, "Too many requests.")
		}
	})}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	panic(server.Serve(listener))
}
END
go build -o server .
./server >address 2>server.log &
server=$!
until [ -s address ]; do sleep 0.1; done
head -c 3000000 /dev/zero >upload
lost() { # lost PATH OPTION: of 20 uploads, how many have no status
	local count=0
	for _ in $(seq 20); do
		[ "$("$curl" -s -o answer -w '%{http_code}' "$2" -T upload "http://$(cat address)/$1" 2>/dev/null)" = 429 ] || count=$((count + 1))
	done
	echo "$count"
}
without=$(lost none --http2-prior-knowledge) with=$(lost line --http2-prior-knowledge) old=$(lost none --http1.1)
echo "lost of 20: $without without a body, $with with a line of text, $old over HTTP/1.1"
[ "$without" -ge 10 ] && [ "$old" = 0 ] || { echo 'it has changed'; exit 1; }
