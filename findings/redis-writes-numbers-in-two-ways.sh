#!/usr/bin/env bash
# A number that a script hands to a command keeps all its digits, and the same number in a text keeps 14: microseconds since 1970
# have 16, so that a member of a sorted set that is made by ".." stands for a hundred of them at once, or more.
#
# Seen on 2026-11-28 with Debian 12's Redis 7.0.15: "argument 1795876383593123 and 0.10000000000000001, text 1.7958763835931e+15 and
# 0.1". Redict 7.3.6, Redis 8.6.3 and Valkey 9.1.2, run by hand, write the second argument as 0.1, and the rest alike.
# Guess: redis.call writes numbers as tostring does.
# Follows from it: scripts hand numbers on as arguments or by struct.pack and string.format, never by "..": scripts/prelude.lua.
# Ground: redis
#
# Use: redis-writes-numbers-in-two-ways.sh [version of the Debian package]. Needs apt-get, dpkg and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "redis-server${1:+=$1}" "redis-tools${1:+=$1}" \
	libjemalloc2 liblzf1 liblua5.1-0 lua-bitop lua-cjson libatomic1
for package in *.deb; do dpkg -x "$package" package; done
library=$(dirname "$(find package -name 'libjemalloc.so.2')")
export LD_LIBRARY_PATH=$folder/$library
package/usr/bin/redis-server --version
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
package/usr/bin/redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" >log &
server=$!
ask() { package/usr/bin/redis-cli -p "$port" "$@"; }
until [ "$(ask ping 2>/dev/null)" = PONG ]; do sleep 0.1; done
got=$(ask eval "local whole, part = 1795876383593123, 0.1
redis.call('mset', KEYS[1], whole, KEYS[2], part, KEYS[3], '' .. whole, KEYS[4], '' .. part)
local v = redis.call('mget', unpack(KEYS))
return 'argument ' .. v[1] .. ' and ' .. v[2] .. ', text ' .. v[3] .. ' and ' .. v[4]" 4 a b c d)
echo "$got"
[ "$got" = 'argument 1795876383593123 and 0.10000000000000001, text 1.7958763835931e+15 and 0.1' ] || { echo 'it has changed'; exit 1; }
