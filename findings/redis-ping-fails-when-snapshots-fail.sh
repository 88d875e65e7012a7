#!/usr/bin/env bash
# After a snapshot that failed, Redis answers PING with MISCONF, while it still answers GET, and scripts that only read.
#
# Seen on 2026-11-28 with Debian 12's redis-server 7.0.15: "PING: MISCONF, GET: v, SET: MISCONF, reading script: v".
# Guess: PING says that the server is there, and only writes are refused.
# Follows from it: what watches Redis for this project asks by a script that writes, as requests do, and no PING (DESIGN.md,
# "Probes are decisions"): a health check by PING takes a server for dead that answers reads, and one by GET a server for good that
# counts nothing.
# Ground: redis
#
# Use: redis-ping-fails-when-snapshots-fail.sh [version of the Debian package]. Needs apt-get and dpkg.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill -KILL "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT # it does not end by TERM while a snapshot fails
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "redis-server${1:+=$1}" "redis-tools${1:+=$1}" libjemalloc2 liblzf1 liblua5.1-0 lua-bitop lua-cjson libatomic1
for package in *.deb; do dpkg -x "$package" package; done
library=$(dirname "$(find package -name 'libjemalloc.so.2')")
export LD_LIBRARY_PATH=$folder/$library
package/usr/bin/redis-server --version
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir data
package/usr/bin/redis-server --port "$port" --bind 127.0.0.1 --save '3600 1' --dir "$folder/data" >log &
server=$!
ask() { timeout 5 package/usr/bin/redis-cli -p "$port" "$@" 2>&1; }
until [ "$(ask ping)" = PONG ]; do sleep 0.1; done
ask set k v >/dev/null
rm -r data # where the snapshot should go
ask bgsave >/dev/null
until ask info persistence | grep -q 'rdb_last_bgsave_status:err'; do sleep 0.1; done
outcome() { ask "$@" | cut -d ' ' -f 1; }
got="PING: $(outcome ping), GET: $(outcome get k), SET: $(outcome set k w), reading script: $(outcome eval "return redis.call('get', KEYS[1])" 1 k)"
echo "$got"
[ "$got" = 'PING: MISCONF, GET: v, SET: MISCONF, reading script: v' ] || { echo 'it has changed'; exit 1; }
