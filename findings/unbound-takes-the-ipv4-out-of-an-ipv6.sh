#!/usr/bin/env bash
# An unbound that makes IPv6 of IPv4 (module dns64) answers for the name of an address in 64:ff9b::/96 with that of the IPv4 within
# it. Without the module it asks for the address as it stands.
#
# Seen on 2026-11-30 with Debian sid's unbound 1.26.2, for the name of 64:ff9b::66.249.66.1: "with dns64 it asks for
# 1.66.249.66.in-addr.arpa, without for 1.0.2.4.9.f.2.4....ip6.arpa". PowerDNS Recursor 5.4.9
# and dnsmasq 2.93, run by hand with their defaults, ask as the latter.
# Guess: dns64 is about addresses of names; names of addresses are asked for as they stand.
# Follows from it: internal/crawlers/address.go asks for the IPv4 itself: else a crawler behind NAT64 is verified or forged as the
# resolver is set.
# Ground: resolvers
#
# Use: unbound-takes-the-ipv4-out-of-an-ipv6.sh [suite of Debian]. Needs apt-get, dpkg and python3.
set -euo pipefail
suite=${1:-sid}
unpack=$(realpath "$(dirname "$0")/../.ci/unpack")
folder=$(mktemp -d)
trap 'kill ${servers:-} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
"$unpack" "$suite" "$folder/root" unbound >unpack.log 2>&1 || { cat unpack.log; exit 1; }
loader=$(find root -name 'ld-linux*.so.*' | head -1)
libraries=$(dirname "$(find root -name libc.so.6 | head -1)")
"$loader" --library-path "$libraries" root/usr/sbin/unbound -V | sed -n 1p
cat >dns.py <<'END_OF_SCRIPT'
import ipaddress
import socket
import struct
import sys

def name_in(packet):
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return '.'.join(labels), at + 5

if sys.argv[1] == 'serve':  # every name is missing; names of addresses that were asked for are printed
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(('127.0.0.1', 0))
    print(server.getsockname()[1], flush=True)
    while True:
        packet, client = server.recvfrom(4096)
        name, end = name_in(packet)
        if name.endswith('.arpa'):
            print(name, flush=True)
        server.sendto(packet[:2] + b'\x81\x83' + packet[4:6] + bytes(6) + packet[12:end], client)

name = ipaddress.ip_address('64:ff9b::42f9:4201').reverse_pointer  # 66.249.66.1
question = b''.join(bytes([len(label)]) + label.encode() for label in name.split('.')) + b'\0' + struct.pack('>HH', 12, 1)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(1)
client.connect(('127.0.0.1', int(sys.argv[2])))
client.send(b'\x12\x34\x01\0\0\1' + bytes(6) + question)
client.recv(4096)
END_OF_SCRIPT
asks() { # MODULES
	local port
	port=$(python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	python3 dns.py serve >"$1.asked" &
	servers=$!
	until [ -s "$1.asked" ]; do sleep 0.1; done
	cat >"$1.conf" <<-CONF
		server:
		  interface: 127.0.0.1@$port
		  username: ""
		  chroot: ""
		  directory: "$folder"
		  pidfile: ""
		  use-syslog: no
		  do-daemonize: no
		  do-not-query-localhost: no
		  module-config: "$1"
		  dns64-prefix: 64:ff9b::/96
		forward-zone:
		  name: "."
		  forward-addr: 127.0.0.1@$(sed -n 1p "$1.asked")
	CONF
	"$loader" --library-path "$libraries" root/usr/sbin/unbound -d -c "$1.conf" >"$1.log" 2>&1 &
	servers+=" $!"
	until python3 dns.py ask "$port" 2>/dev/null; do sleep 0.1; done
	kill $servers
	wait $servers 2>/dev/null || true
	servers=
	sed -n 2p "$1.asked" | sed 's/\(.\{16\}\).*\.ip6/\1...ip6/'
}
asks 'dns64 iterator' >with
asks iterator >without
got="with dns64 it asks for $(cat with), without for $(cat without)"
echo "$got"
want='with dns64 it asks for 1.66.249.66.in-addr.arpa, without for 1.0.2.4.9.f.2.4....ip6.arpa'
[ "$got" = "$want" ] || { cat ./*.log; echo 'it has changed'; exit 1; }
