#!/usr/bin/env bash
# CLIENT PAUSE WRITE holds back every script of EVAL and EVALSHA, also one that only reads. GET, and the same script by EVAL_RO,
# are answered.
#
# Seen on 2026-11-28 with Debian 12's redis-server 7.0.15: "GET: answered, EVAL: held, EVAL_RO: answered".
# Guess: a script that writes nothing is answered while writes pause, as GET is.
# Follows from it: docs/reliability.md, "Connections": a planned failover that pauses writes looks like an outage of a second, also
# to a limiter that would only look at a count.
# Ground: redis
#
# Use: redis-pauses-scripts-that-only-read.sh [version of the Debian package]. Needs apt-get and dpkg.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "redis-server${1:+=$1}" "redis-tools${1:+=$1}" libjemalloc2 liblzf1 liblua5.1-0 lua-bitop lua-cjson libatomic1
for package in *.deb; do dpkg -x "$package" package; done
export LD_LIBRARY_PATH
LD_LIBRARY_PATH=$(dirname "$(find package -name 'libjemalloc.so.2')")
LD_LIBRARY_PATH=$folder/$LD_LIBRARY_PATH
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
package/usr/bin/redis-server --version || true
package/usr/bin/redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" >log &
server=$!
ask() { timeout 1 package/usr/bin/redis-cli -p "$port" "$@"; }
until [ "$(ask ping 2>/dev/null)" = PONG ]; do sleep 0.1; done
ask set k v >/dev/null
ask client pause 20000 write >/dev/null
outcome() { if [ "$(ask "$@" 2>/dev/null)" = v ]; then echo answered; else echo held; fi; }
script="return redis.call('get', KEYS[1])"
got="GET: $(outcome get k), EVAL: $(outcome eval "$script" 1 k), EVAL_RO: $(outcome eval_ro "$script" 1 k)"
echo "$got"
[ "$got" = 'GET: answered, EVAL: held, EVAL_RO: answered' ] || { echo 'it has changed'; exit 1; }
