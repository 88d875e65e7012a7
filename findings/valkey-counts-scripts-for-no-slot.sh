#!/usr/bin/env bash
# CLUSTER SLOT-STATS adds what a script costs to the slot of its keys only if the script begins with the line "#!lua". Of any other
# script it counts no processor time, no bytes that come in, and of the bytes that go out those of the replies that its commands
# get within it, but not those of its own reply, by EVAL and by EVALSHA. Other commands are counted whole, and so are the keys of a slot.
#
# Seen on 2026-11-30 with Debian sid's Valkey 9.1.2, of one run each; Redis 8.6.3 of Debian's experimental, run by hand, does the
# same:
#   SETRANGE: time, 49 in, 10 out, 1 keys
#   EVAL: no time, 0 in, 5 out, 1 keys
#   EVALSHA: no time, 0 in, 5 out, 1 keys
#   EVAL of #!lua: time, 133 in, 17 out, 1 keys
#   EVALSHA of #!lua: time, 82 in, 17 out, 1 keys
# Guess: EVALSHA, which names its keys, is counted to the slot of its keys.
# Follows from it: docs/redis.md: slots that cost a limiter's master its time are not found by CLUSTER SLOT-STATS.
# Ground: redis
#
# Use: valkey-counts-scripts-for-no-slot.sh [suite of Debian]. Needs apt-get, dpkg and python3.
set -euo pipefail
suite=${1:-sid}
unpack=$(realpath "$(dirname "$0")/../.ci/unpack")
folder=$(mktemp -d)
trap 'kill ${server:-} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
"$unpack" "$suite" "$folder/root" valkey-server >unpack.log 2>&1 || { cat unpack.log; exit 1; }
loader=$(find root -name 'ld-linux*.so.*' | head -1)
libraries=$(dirname "$(find root -name libc.so.6 | head -1)")
# The port of the nodes among themselves is not fixed either.
read -r port bus < <(python3 -c '
import socket
both = [socket.socket() for _ in range(2)]
for s in both: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in both])')
"$loader" --library-path "$libraries" root/usr/bin/valkey-server --port "$port" --cluster-port "$bus" --bind 127.0.0.1 --save '' \
	--dir "$folder" --cluster-enabled yes --cluster-slot-stats-enabled yes >log &
server=$!
ask() { "$loader" --library-path "$libraries" root/usr/bin/valkey-cli -p "$port" "$@"; }
until [ "$(ask ping 2>/dev/null)" = PONG ]; do sleep 0.1; done
ask info server | grep -a '^valkey_version'
ask cluster addslotsrange 0 16383 >/dev/null
until ask cluster info | grep -q 'cluster_state:ok'; do sleep 0.1; done
costs() { # LABEL KEY COMMAND...
	local label=$1 slot
	slot=$(ask cluster keyslot "$2")
	shift 2
	ask "$@" >/dev/null
	ask cluster slot-stats slotsrange "$slot" "$slot" | tr '\n' ' ' | awk -v label="$label" '{
		for (i = 1; i < NF; i++) of[$i] = $(i + 1)
		time = (of["cpu-usec"] > 0) ? "time" : "no time"
		print label ": " time ", " of["network-bytes-in"] " in, " of["network-bytes-out"] " out, " of["key-count"] " keys"
	}'
}
# It runs for milliseconds, answers with 12 bytes, and its SET gets 5.
script="for i = 1, 200000 do local x = i * i end redis.call('set', KEYS[1], 'v') return 'answer'"
with=$'#!lua\n'$script
got=$(
	costs SETRANGE key:s setrange key:s 1000000 x # long enough to take a microsecond
	costs EVAL key:a eval "$script" 1 key:a
	costs EVALSHA key:b evalsha "$(ask script load "$script")" 1 key:b
	costs 'EVAL of #!lua' key:c eval "$with" 1 key:c
	costs 'EVALSHA of #!lua' key:d evalsha "$(ask script load "$with")" 1 key:d
)
echo "$got"
want='SETRANGE: time, 49 in, 10 out, 1 keys
EVAL: no time, 0 in, 5 out, 1 keys
EVALSHA: no time, 0 in, 5 out, 1 keys
EVAL of #!lua: time, 133 in, 17 out, 1 keys
EVALSHA of #!lua: time, 82 in, 17 out, 1 keys'
[ "$got" = "$want" ] || { echo 'it has changed'; exit 1; }
