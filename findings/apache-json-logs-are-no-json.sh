#!/usr/bin/env bash
# A LogFormat of JSON has Apache write lines that no reader of JSON accepts: where a response has no body its size is a dash,
# and a byte of a header that is no ASCII is an escape that JSON does not have.
#
# Seen on 2026-11-28 with Debian 12's apache2 2.4.71: "/plain is JSON, /none is none: -, /umlaut is none: \xc3".
# Guess: quotes in the format are enough, since Apache escapes quotation marks and backslashes.
# Follows from it: docs/replay.md, "--fields": such values are read for what Apache means, and the LogFormat of that page has %B.
# Ground: logs
#
# Use: apache-json-logs-are-no-json.sh [version of apache2-bin]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${apache:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "apache2-bin${1:+=$1}" \
	libapr1 libaprutil1 libbrotli1 libcurl4 libjansson4 liblua5.3-0 libnghttp2-14
for package in *.deb; do dpkg -x "$package" package; done
LD_LIBRARY_PATH=$folder/$(dirname "$(find package -name 'libapr-1.so.0')")
export LD_LIBRARY_PATH
package/usr/sbin/apache2 -v | sed -n 1p
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
modules=$folder/package/usr/lib/apache2/modules
cat >apache.conf <<END
ServerRoot $folder
ServerName localhost
Listen 127.0.0.1:$port
PidFile $folder/apache.pid
ErrorLog $folder/error.log
Mutex file:$folder
$(for name in mpm_event authz_core alias; do echo "LoadModule ${name}_module $modules/mod_$name.so"; done)
LogFormat "{\"path\":\"%U\",\"size\":%b,\"agent\":\"%{User-Agent}i\"}" json
CustomLog $folder/access.log json
Redirect 204 /none
END
package/usr/sbin/apache2 -f "$folder/apache.conf" -DFOREGROUND &
apache=$!
until curl -s -o /dev/null -A 'a "quote"' "http://127.0.0.1:$port/plain"; do sleep 0.1; done
curl -s -o /dev/null -A agent "http://127.0.0.1:$port/none"
curl -s -o /dev/null -A $'\xc3\xbc' "http://127.0.0.1:$port/umlaut"
until grep -q /umlaut access.log; do sleep 0.1; done
got=$(python3 - <<'END'
import json, re

said = []
for line in open('access.log'):
    try:
        said.append(json.loads(line)['path'] + ' is JSON')
    except ValueError as e:
        said.append(line.split('"')[3] + ' is none: ' + re.match(r'-|\\x..', line[e.pos:]).group())
print(', '.join(said))
END
)
echo "$got"
[ "$got" = '/plain is JSON, /none is none: -, /umlaut is none: \xc3' ] || { cat access.log; echo 'it has changed'; exit 1; }
