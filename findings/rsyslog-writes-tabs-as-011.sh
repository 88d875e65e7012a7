#!/usr/bin/env bash
# rsyslog writes a tab in a message as #011, so that lines of logs whose fields are divided by tabs are no such lines any more.
#
# Seen on 2026-11-28 with Debian 12's rsyslog 8.2302.0 and its default template: "caddy: one#011two three".
# Guess: a message is written as it was sent.
# Follows from it: docs/replay.md, "What it reads": tabs are made of #011 where syslog carried a line of Caddy's console format.
# Ground: logs
#
# Use: rsyslog-writes-tabs-as-011.sh [version of the Debian package]. Needs apt-get, dpkg and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "rsyslog${1:+=$1}" libestr0 libfastjson4 liblognorm5
for package in *.deb; do dpkg -x "$package" package; done
LD_LIBRARY_PATH=$folder/$(dirname "$(find package -name 'libestr.so.0')")
modules=$folder/$(dirname "$(find package -name imudp.so)")
export LD_LIBRARY_PATH
package/usr/sbin/rsyslogd -v | sed -n 1p
port=$(python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >rsyslog.conf <<END
module(load="imudp")
input(type="imudp" address="127.0.0.1" port="$port")
action(type="omfile" file="$folder/log")
END
package/usr/sbin/rsyslogd -n -M "$modules" -f rsyslog.conf -i "$folder/pid" &
server=$!
until [ -s log ]; do # the first may come before the server
	printf '<134>Nov 27 19:47:57 host caddy: one\ttwo three' >"/dev/udp/127.0.0.1/$port"
	sleep 0.1
done
got=$(sed -n '1s/.*host //p' log)
echo "$got"
[ "$got" = 'caddy: one#011two three' ] || { echo 'it has changed'; exit 1; }
