#!/usr/bin/env bash
# The second word of lighttpd's log is the host that the client named, where Common Log Format has the identity.
#
# Seen on 2026-11-28 with Debian 12's lighttpd 1.4.69: "127.0.0.1 shop.example:81 - [", by its default of accesslog.format.
# Guess: the second word is a dash, as in every log of nginx and Apache.
# Follows from it: docs/replay.md, "Clients": where the address stands is decided once for a file, since a word beside it may
# be what a client wrote; and a replay plays such a line at the site of that host.
# Ground: logs
#
# Use: lighttpd-logs-the-host-for-the-identity.sh [version of the Debian package]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "lighttpd${1:+=$1}" libnettle8 libxxhash0
for package in *.deb; do dpkg -x "$package" package; done
LD_LIBRARY_PATH=$folder/$(dirname "$(find package -name 'libxxhash.so.0')")
export LD_LIBRARY_PATH
lighttpd() { package/usr/sbin/lighttpd -m "$folder/package/usr/lib/lighttpd" "$@"; }
lighttpd -v | sed -n 1p
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >lighttpd.conf <<END
server.port = $port
server.bind = "127.0.0.1"
server.document-root = "$folder"
server.modules = ("mod_accesslog")
accesslog.filename = "$folder/access.log"
server.errorlog = "$folder/error.log"
END
package/usr/sbin/lighttpd -m "$folder/package/usr/lib/lighttpd" -D -f lighttpd.conf &
server=$!
until curl -s -o /dev/null -H 'Host: shop.example:81' "http://127.0.0.1:$port/"; do sleep 0.1; done
kill "$server"
wait "$server" || true
got=$(sed -n '1s/\[.*/[/p' access.log)
echo "$got"
[ "$got" = '127.0.0.1 shop.example:81 - [' ] || { echo 'it has changed'; exit 1; }
