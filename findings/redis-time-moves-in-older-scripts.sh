#!/usr/bin/env bash
# Within one script TIME goes on up to Redis 7.0, and stands still from 7.2 on, as in Valkey and Redict. Keys never end within a
# script, in none of them: up to 7.0 a key whose time is over by TIME, and by its PTTL of 0, is still read.
#
# Seen on 2026-11-28 with Debian 12's Redis 7.0.15 and Debian 13's Redis 8.0.2, with a key of 1 ms that is read some milliseconds
# after it was written: "7.0: TIME moves, PTTL 0, GET v; 8.0: TIME stands still, PTTL 1, GET v".
# Guess: TIME stands still in scripts in all versions, since a script is one moment to the replicas.
# Follows from it: scripts/clock.lua reads TIME once, for all checks of a batch, and no script compares TIME with a TTL.
# Ground: redis
#
# Use: redis-time-moves-in-older-scripts.sh [suite of Debian of the newer one]. Needs Debian 12's apt-get, dpkg and python3.
set -euo pipefail
suite=${1:-trixie}
unpack=$(realpath "$(dirname "$0")/../.ci/unpack")
folder=$(mktemp -d)
trap 'kill ${servers:-} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download redis-server redis-tools libjemalloc2 liblzf1 liblua5.1-0 lua-bitop lua-cjson libatomic1
for package in *.deb; do dpkg -x "$package" older; done
older=$folder/$(dirname "$(find older -name 'libjemalloc.so.2')")
"$unpack" "$suite" "$folder/newer" redis-server >unpack.log 2>&1 || { cat unpack.log; exit 1; }
loader=$(find newer -name 'ld-linux*.so.*' | head -1)
newer=$(dirname "$(find newer -name libc.so.6 | head -1)")
script="redis.call('set', KEYS[1], 'v', 'px', 1)
local before = redis.call('time')
for i = 1, 3000000 do before[3] = i end
local after = redis.call('time')
local moves = before[1] .. ' ' .. before[2] ~= after[1] .. ' ' .. after[2]
return 'TIME ' .. (moves and 'moves' or 'stands still') .. ', PTTL ' .. redis.call('pttl', KEYS[1]) .. ', GET ' .. redis.call('get', KEYS[1])"
# Says what a server makes of the script. Its arguments are what runs programs of a release, and where they lie.
try() {
	local port version programs=${*: -1}
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	"${@:1:$#-1}" "$programs/redis-server" --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" >"$port.log" &
	servers+=" $!"
	until [ "$("${@:1:$#-1}" "$programs/redis-cli" -p "$port" ping 2>/dev/null)" = PONG ]; do sleep 0.1; done
	version=$("${@:1:$#-1}" "$programs/redis-cli" -p "$port" info server | sed -n 's/^redis_version:\([^\r]*\).*/\1/p')
	echo "Redis $version"
	got+="${version%.*}: $("${@:1:$#-1}" "$programs/redis-cli" -p "$port" eval "$script" 1 k); "
}
got=
try env LD_LIBRARY_PATH="$older" older/usr/bin
try "$loader" --library-path "$newer" newer/usr/bin
got=${got%; }
echo "$got"
[[ $got == '7.0: TIME moves, PTTL 0, GET v; '*': TIME stands still, PTTL 1, GET v' ]] || { echo 'it has changed'; exit 1; }
