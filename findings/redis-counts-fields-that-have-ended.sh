#!/usr/bin/env bash
# HLEN counts fields of a hash whose own time (HPEXPIRE) is over until the server gets round to remove them, and EXISTS the hash of
# them alone, while HGET has none of them. A limit of running requests that is HLEN of a field for each request counts dead ones.
#
# Seen on 2026-11-28 with Debian 13's Redis 8.0.2, after the time of all fields: "HLEN 2, EXISTS 1, HGETALL of 0 fields"; with
# removal in the background switched off, which otherwise hides that most of the time. Valkey 9.1.2, run by hand, does the same.
# Guess: what has ended is not counted, as EXISTS of a key that has ended is 0.
# Follows from it: running requests are counted by numbers with times of their own (scripts/concurrency.lua), not by HLEN.
# Ground: redis
#
# Use: redis-counts-fields-that-have-ended.sh [suite of Debian]. Needs apt-get, dpkg and python3.
set -euo pipefail
suite=${1:-trixie}
unpack=$(realpath "$(dirname "$0")/../.ci/unpack")
folder=$(mktemp -d)
trap 'kill ${server:-} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
"$unpack" "$suite" "$folder/root" redis-server >unpack.log 2>&1 || { cat unpack.log; exit 1; }
loader=$(find root -name 'ld-linux*.so.*' | head -1)
libraries=$(dirname "$(find root -name libc.so.6 | head -1)")
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$loader" --library-path "$libraries" root/usr/bin/redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" \
	--enable-debug-command yes >log &
server=$!
ask() { "$loader" --library-path "$libraries" root/usr/bin/redis-cli -p "$port" "$@"; }
until [ "$(ask ping 2>/dev/null)" = PONG ]; do sleep 0.1; done
ask info server | grep -a '^redis_version'
ask debug set-active-expire 0 >/dev/null
ask hset running a 1 b 1 >/dev/null
ask hpexpire running 20 fields 2 a b >/dev/null
sleep 0.1
fields=$(ask eval "return #redis.call('hgetall', KEYS[1]) / 2" 1 running)
got="HLEN $(ask hlen running), EXISTS $(ask exists running), HGETALL of $fields fields"
echo "$got"
[ "$got" = 'HLEN 2, EXISTS 1, HGETALL of 0 fields' ] || { echo 'it has changed'; exit 1; }
