#!/usr/bin/env bash
# WAIT in a script does not wait, and counts replicas that have nothing of what the script wrote: it returns 1 for a replica that
# stands still. Up to Redis 7.0 scripts may not call it.
#
# Seen on 2026-11-28 with Debian 13's Redis 8.0.2, after a write, with its one replica stopped: "WAIT: 0, WAIT in a script: 1".
# Redict 7.3.6, Redis 8.6.3 and Valkey 9.1.2, run by hand, do the same.
# Guess: it is an error in scripts, as it was, or answers at once with 0.
# Follows from it: no script asks whether replicas have a count; what a failover may lose stands in docs/reliability.md,
# "Not guaranteed".
# Ground: redis
#
# Use: redis-wait-in-scripts-counts-the-stopped.sh [suite of Debian]. Needs apt-get, dpkg and python3.
set -euo pipefail
suite=${1:-trixie}
unpack=$(realpath "$(dirname "$0")/../.ci/unpack")
folder=$(mktemp -d)
trap 'kill -CONT ${replica:-} 2>/dev/null || true; kill ${server:-} ${replica:-} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
"$unpack" "$suite" "$folder/root" redis-server >unpack.log 2>&1 || { cat unpack.log; exit 1; }
loader=$(find root -name 'ld-linux*.so.*' | head -1)
libraries=$(dirname "$(find root -name libc.so.6 | head -1)")
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
start() {
	exec "$loader" --library-path "$libraries" root/usr/bin/redis-server --bind 127.0.0.1 --save '' --repl-diskless-sync-delay 0 "$@"
}
port=$(free)
mkdir 1 2
start --port "$port" --dir 1 >1.log &
server=$!
ask() { "$loader" --library-path "$libraries" root/usr/bin/redis-cli -p "$port" "$@"; }
until [ "$(ask ping 2>/dev/null)" = PONG ]; do sleep 0.1; done
ask info server | grep -a '^redis_version'
start --port "$(free)" --dir 2 --replicaof 127.0.0.1 "$port" >2.log &
replica=$!
until [ "$(printf 'set k 1\nwait 1 500\n' | ask | tail -1)" = 1 ]; do sleep 0.1; done
kill -STOP "$replica"
outside=$(printf 'set k 2\nwait 1 500\n' | ask | tail -1)
inside=$(ask eval "redis.call('set', KEYS[1], 3) return redis.call('wait', 1, 500)" 1 k)
got="WAIT: $outside, WAIT in a script: $inside"
echo "$got"
[ "$got" = 'WAIT: 0, WAIT in a script: 1' ] || { echo 'it has changed'; exit 1; }
