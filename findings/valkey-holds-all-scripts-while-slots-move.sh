#!/usr/bin/env bash
# When a migration of slots by Valkey itself (CLUSTER MIGRATESLOTS, from 9.0) ends, the old master holds every script for a moment,
# also those whose slot stays with it. A GET of such a slot is answered meanwhile. Scripts of two keys of a slot that moves never
# meet TRYAGAIN, as they do where slots move key by key; and the new owner has to be sent each script anew.
#
# Seen on 2026-11-30 with Debian sid's Valkey 9.1.2: "a slot that stays: EVAL held, GET answered; one that moves: no TRYAGAIN,
# then NOSCRIPT". Scripts were held for 9 to 233 ms,
# on a busy machine.
# Guess: a migration concerns the slots that move, and no others.
# Follows from it: docs/reliability.md, "Fault by fault", slots moving to another master.
# Ground: redis
#
# Use: valkey-holds-all-scripts-while-slots-move.sh [suite of Debian]. Needs apt-get, dpkg and python3.
set -euo pipefail
suite=${1:-sid}
unpack=$(realpath "$(dirname "$0")/../.ci/unpack")
folder=$(mktemp -d)
trap 'kill ${servers:-} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
"$unpack" "$suite" "$folder/root" valkey-server >unpack.log 2>&1 || { cat unpack.log; exit 1; }
loader=$(find root -name 'ld-linux*.so.*' | head -1)
libraries=$(dirname "$(find root -name libc.so.6 | head -1)")
# The ports of the nodes among themselves are not fixed either.
read -r -a ports < <(python3 -c '
import socket
four = [socket.socket() for _ in range(4)]
for s in four: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in four])')
servers=
for i in 0 1; do
	mkdir "$i"
	"$loader" --library-path "$libraries" root/usr/bin/valkey-server --port "${ports[i]}" --cluster-port "${ports[i + 2]}" \
		--bind 127.0.0.1 --save '' --dir "$folder/$i" --cluster-enabled yes --cluster-node-timeout 5000 >"$i/log" &
	servers+=" $!"
done
cat >moves.py <<'END_OF_SCRIPT'
import select
import socket
import sys
import time

class Connection:
    def __init__(self, port):
        while True:
            try:
                self.socket = socket.create_connection(('127.0.0.1', port))
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        self.file = self.socket.makefile('rb', 0)

    def send(self, *words):
        words = [str(w).encode() for w in words]
        self.socket.sendall(b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words))

    def read(self):
        line = self.file.readline()[:-2]
        if line[:1] == b'*':
            return [self.read() for _ in range(int(line[1:]))]
        if line[:1] != b'$':
            return line.decode()
        size, got = int(line[1:]) + 2, b''
        while len(got) < size:
            got += self.file.read(size - len(got))
        return got[:-2].decode()

    def ask(self, *words):
        self.send(*words)
        return self.read()

ports = [int(p) for p in sys.argv[1:3]]
nodes = [Connection(p) for p in ports]
old, new = nodes
print(next(line for line in old.ask('info', 'server').split('\r\n') if line.startswith('valkey_version')), file=sys.stderr)
old.ask('cluster', 'addslotsrange', 0, 8191), new.ask('cluster', 'addslotsrange', 8192, 16383)
old.ask('cluster', 'set-config-epoch', 1), new.ask('cluster', 'set-config-epoch', 2)
old.ask('cluster', 'meet', '127.0.0.1', ports[1], sys.argv[4])
while not all('cluster_state:ok' in n.ask('cluster', 'info') and 'cluster_known_nodes:2' in n.ask('cluster', 'info') for n in nodes):
    time.sleep(0.1)

names = {}
for i in range(100000):
    names.setdefault(int(old.ask('cluster', 'keyslot', '{%d}' % i)[1:]), '{%d}' % i)
    if 0 in names and 8191 in names:
        break
moves, stays = names[0], names[8191]
for i in range(40):
    for j in range(500):
        old.send('set', f'{moves}{i * 500 + j}', 'twenty-four bytes of it')
    for j in range(500):
        old.read()
old.ask('set', stays, 'v')
two = "redis.call('incr', KEYS[1]) return redis.call('incr', KEYS[2])"
name = old.ask('script', 'load', two)
one = "return redis.call('get', KEYS[1])"

# A server answers in the order in which it is asked: a second GET that is answered before the script shows that the script is held.
longest, tryagain, noscript = (0, 0), 0, False
scripts, plain, moving = Connection(ports[0]), Connection(ports[0]), Connection(ports[0])
started = old.ask('cluster', 'migrateslots', 'slotsrange', 0, 4095, 'node', new.ask('cluster', 'myid'))
assert started == '+OK', started
while True:
    began, answered = time.monotonic(), 0
    moving.send('evalsha', name, 2, moves + 'p', moves + 'q')
    scripts.send('eval', one, 1, stays)
    while not select.select([scripts.socket], [], [], 0)[0]:
        assert plain.ask('get', stays) == 'v'
        answered += 1
    assert scripts.read() == 'v'
    longest = max(longest, (answered, time.monotonic() - began))
    got = moving.read()
    tryagain += got.startswith('-TRYAGAIN')
    if got.startswith('-MOVED'):
        noscript = new.ask('evalsha', name, 2, moves + 'p', moves + 'q').startswith('-NOSCRIPT')
        break
    assert got.startswith(':'), got
print('%d GETs were answered while a script was held for %d ms' % (longest[0], longest[1] * 1000), file=sys.stderr)
print('a slot that stays: EVAL %s, GET answered; one that moves: %s TRYAGAIN, then %s' % (
    'held' if longest[0] > 4 else 'not held', tryagain or 'no', 'NOSCRIPT' if noscript else 'the script'))
END_OF_SCRIPT
got=$(python3 moves.py "${ports[@]}")
echo "$got"
[ "$got" = 'a slot that stays: EVAL held, GET answered; one that moves: no TRYAGAIN, then NOSCRIPT' ] || { echo 'it has changed'; exit 1; }
