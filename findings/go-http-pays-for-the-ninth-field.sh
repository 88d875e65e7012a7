#!/usr/bin/env bash
# A ninth header field of a response costs Go's net/http half as much memory as all else of a request: maps of Go hold eight
# names in one piece, and the server makes two maps of each response's header, the handler's and a copy of it.
#
# Seen on 2026-11-28 with Go 1.26.8: "8 fields 2302 bytes a request, 9 fields 3454, 10 fields 3470", of HTTP/1.1 on one
# connection, where the client of the script takes none.
# Guess: about 16 bytes for each field more, as from the seventh to the eighth and from the ninth to the tenth.
# Follows from it: what a refusal costs in DESIGN.md; its field that is one too many says what caches have to know, and stays.
# Ground: servers
#
# Use: go-http-pays-for-the-ninth-field.sh. Needs Go.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >main.go <<'END'
package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
)

const body = "slow down"

// bytesOf returns how many bytes a process allocates for a request whose response has so many fields of its handler.
func bytesOf(fields int) uint64 {
	names := make([]string, fields)
	for i := range names {
		names[i] = "X-Field-" + strconv.Itoa(i)
	}
	value := []string{"1"}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range names {
			w.Header()[name] = value
		}
		w.WriteHeader(http.StatusTooManyRequests)
		w.Write([]byte(body))
	})}
	go server.Serve(listener)
	defer server.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		panic(err)
	}
	replies := bufio.NewReader(conn)
	ask := func(times int) {
		for range times {
			conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
			for line := []byte(nil); len(line) != len("\r\n"); {
				if line, err = replies.ReadSlice('\n'); err != nil {
					panic(err)
				}
			}
			replies.Discard(len(body))
		}
	}
	const requests = 20_000
	ask(1000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ask(requests)
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / requests
}

func main() {
	eight, nine, ten := bytesOf(8), bytesOf(9), bytesOf(10)
	fmt.Println(runtime.Version())
	fmt.Printf("8 fields %d bytes a request, 9 fields %d, 10 fields %d\n", eight, nine, ten)
	if nine-eight < 1000 || ten-nine > 100 {
		os.Exit(1)
	}
}
END
go run main.go || { echo 'it has changed'; exit 1; }
