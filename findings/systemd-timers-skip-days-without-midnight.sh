#!/usr/bin/env bash
# A daily timer of systemd leaves out the day on which the clocks go forward at midnight, as they do in Cairo, Beirut, Santiago,
# Havana and on the Azores: it does not elapse at 01:00, where that day begins, but a day later.
#
# Seen on 2026-11-28 with Debian 12's systemd 252.39, and with 257 of Debian 13: "04-23 00:00, 04-25 00:00, 04-26 00:00".
# Guess: the timer elapses at 01:00 of the 24th, the first moment of that day.
# Follows from it: docs/caddyfile.md, "Calendar periods": no period is left out; timers that should follow them are.
# Ground: calendars
#
# Use: systemd-timers-skip-days-without-midnight.sh [version of the Debian package]. Needs apt-get and dpkg.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "systemd${1:+=$1}" "libsystemd-shared${1:+=$1}" tzdata
for package in *.deb; do dpkg -x "$package" package; done
LD_LIBRARY_PATH=$folder/$(dirname "$(find package -name 'libsystemd-shared*.so' | head -1)")
export LD_LIBRARY_PATH
package/usr/bin/systemd-analyze --version | sed -n 1p
TZ=Africa/Cairo package/usr/bin/systemd-analyze calendar --base-time='2026-04-22 12:00:00 UTC' --iterations=3 \
	'*-*-* 00:00:00 Africa/Cairo' >elapses
got=$(sed -nE 's/^ *(Next elapse|Iter. #[0-9]+): ... 2026-(.*):00 EES?T$/\2/p' elapses | paste -s -d , | sed 's/,/, /g')
echo "$got"
[ "$got" = '04-23 00:00, 04-25 00:00, 04-26 00:00' ] || { cat elapses; echo 'it has changed'; exit 1; }
