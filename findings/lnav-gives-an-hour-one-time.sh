#!/usr/bin/env bash
# lnav drops the offset of an access log's times. When clocks go back, the hour that comes twice goes back too, and lnav gives
# each of its lines the time of the line before: an hour of requests stands in one second.
#
# Seen on 2026-11-28 with Debian 12's lnav 0.11.1-3, for 02:59:58 +0200 and then 02:00:01, 02:30:01 and 03:00:01 +0100:
# "/one 02:59:58, /two 02:59:58, /three 02:59:58, /four 03:00:01".
# Guess: a time is what its offset makes of it, and lines half an hour apart stay so.
# Follows from it: docs/replay.md, "What it reads": a replay reads the offset of each line, and lines keep their distance.
# Ground: logs
#
# Use: lnav-gives-an-hour-one-time.sh [version of the Debian package]. Needs apt-get, dpkg, and lnav's other libraries, such as
# libcurl4, libsqlite3-0 and libncurses6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "lnav${1:+=$1}" libarchive13
for package in *.deb; do dpkg -x "$package" packages; done
echo "lnav $(dpkg-deb -f lnav_*.deb Version)"
for line in '02:59:58 +0200 one' '02:00:01 +0100 two' '02:30:01 +0100 three' '03:00:01 +0100 four'; do
	read -r time offset name <<<"$line"
	echo "203.0.113.7 - - [25/Oct/2026:$time $offset] \"GET /$name HTTP/1.1\" 200 12 \"-\" \"curl/8.0\""
done >access.log
query="select cs_uri_stem || ' ' || substr(log_time, 12, 8) as seen from access_log order by log_line"
HOME=$folder XDG_CONFIG_HOME='' LD_LIBRARY_PATH=$(dirname "$(find packages -name 'libarchive.so.13')") timeout 60 packages/usr/bin/lnav -n \
	-c ";$query" -c ':write-csv-to -' access.log >times
got=$(sed 1d times | paste -sd, | sed 's/,/, /g')
echo "$got"
[ "$got" = '/one 02:59:58, /two 02:59:58, /three 02:59:58, /four 03:00:01' ] || { echo 'it has changed'; exit 1; }
