#!/usr/bin/env bash
# A hook of a go-redis client is called for the commands that log a new connection in, with the password among their
# arguments: a hook that logs commands logs it, and one that leads commands elsewhere leads the login there.
#
# Seen on 2026-11-27 with go-redis v9.23.0 and Redis 7.0.15: "hook: get k", "hook: hello 2 auth app secret", "hook: select 3".
# Guess: a hook sees what the program sends, here GET alone.
# Follows from it: internal/dial/renew.go keeps transactions and subscriptions on a client without its hook.
# Ground: redis
#
# Use: go-redis-hooks-see-logins.sh [version of go-redis]. Needs Go and redis-server.
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
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

type hook struct{}

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		show(command)
		return next(ctx, command)
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			show(command)
		}
		return next(ctx, commands)
	}
}

func show(command redis.Cmder) {
	fmt.Println("hook:", strings.TrimSpace(fmt.Sprintln(command.Args()...)))
}

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
	check(admin.Do(ctx, "acl", "setuser", "app", "on", ">secret", "~*", "+@all").Err())
	client := redis.NewClient(&redis.Options{Addr: address, Username: "app", Password: "secret", DB: 3, Protocol: 2, DisableIdentity: true})
	client.AddHook(hook{})
	_ = client.Get(ctx, "k").Err()
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
echo "$got"
grep -q '^hook: .*secret' <<<"$got" || { echo 'it has changed: no hook sees the password'; exit 1; }
