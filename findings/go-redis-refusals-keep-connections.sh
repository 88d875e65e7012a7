#!/usr/bin/env bash
# go-redis gives up the connection of a server that answers READONLY, and keeps those of one that answers OOM, MASTERDOWN,
# NOREPLICAS or, from within a script that catches the error, READONLY.
#
# Seen on 2026-11-27 with go-redis v9.23.0 and Redis 7.0.15: connections made for two commands on a pool of one:
# READONLY 2, the others 1.
# Guess: none is given up, since the server has answered; or all are, so that the next command finds the new master.
# Follows from it: docs/reliability.md, "Connections". Behind one address a client stays with a server that refuses.
# Ground: redis
#
# Use: go-redis-refusals-keep-connections.sh [version of go-redis]. Needs Go and redis-server.
set -euo pipefail
version=${1:-v9.23.0}
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
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
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	address := listener.Addr().String()
	check(listener.Close())
	_, port, _ := net.SplitHostPort(address)
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "")
	check(server.Start())
	defer server.Process.Kill()
	admin := redis.NewClient(&redis.Options{Addr: address})
	for admin.Ping(ctx).Err() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	for _, c := range []struct {
		refusal string
		begin   [][]any
		end     [][]any
		command []any
	}{
		{"READONLY", [][]any{{"replicaof", "127.0.0.1", "1"}}, [][]any{{"replicaof", "no", "one"}}, []any{"set", "k", "v"}},
		{"READONLY in a script", [][]any{{"replicaof", "127.0.0.1", "1"}}, [][]any{{"replicaof", "no", "one"}},
			[]any{"eval", "local r = redis.pcall('set', KEYS[1], 'v') return r.err", 1, "k"}},
		{"MASTERDOWN", [][]any{{"replicaof", "127.0.0.1", "1"}, {"config", "set", "replica-serve-stale-data", "no"}},
			[][]any{{"replicaof", "no", "one"}}, []any{"get", "k"}},
		{"OOM", [][]any{{"config", "set", "maxmemory", "1"}}, [][]any{{"config", "set", "maxmemory", "0"}}, []any{"set", "k", "v"}},
		{"NOREPLICAS", [][]any{{"config", "set", "min-replicas-to-write", "1"}}, [][]any{{"config", "set", "min-replicas-to-write", "0"}}, []any{"set", "k", "v"}},
	} {
		for _, command := range c.begin {
			check(admin.Do(ctx, command...).Err())
		}
		made := 0
		client := redis.NewClient(&redis.Options{Addr: address, PoolSize: 1, MaxRetries: -1, OnConnect: func(context.Context, *redis.Conn) error {
			made++
			return nil
		}})
		for range 2 {
			reply, err := client.Do(ctx, c.command...).Result()
			if said := fmt.Sprint(reply, err); !strings.Contains(said, strings.Fields(c.refusal)[0]) {
				fmt.Printf("%s: the server says %s\n", c.refusal, said)
				os.Exit(1)
			}
		}
		fmt.Printf("%s: %d\n", c.refusal, made)
		check(client.Close())
		for _, command := range c.end {
			check(admin.Do(ctx, command...).Err())
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
END
go get "github.com/redis/go-redis/v9@$version" >get.log 2>&1 || { cat get.log; exit 1; }
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
got=$(go run .)
want='READONLY: 2
READONLY in a script: 1
MASTERDOWN: 1
OOM: 1
NOREPLICAS: 1'
echo "$got"
[ "$got" = "$want" ] || { printf 'it has changed; it was\n%s\n' "$want"; exit 1; }
