#!/usr/bin/env bash
# On the Azores one day in October begins twice for Luxon: the clocks go back from 01:00 to 00:00, and startOf('day') returns the
# midnight whose offset the asking instant has. A quota that is kept under the start of its day is granted twice, the first time
# for an hour.
#
# Seen on 2026-11-28 with luxon 3.7.2 and node 20.20.2, of 25 October 2026, 00:30 before the change and noon after it:
# "2026-10-25T00:00:00+00:00, 2026-10-25T00:00:00-01:00". moment-timezone, run by hand, does the same, and Temporal returns the
# first midnight for both.
# Guess: all instants of a day have one start of the day.
# Follows from it: internal/kernel/midnight.go: a period begins at the first instant of its date, whatever offset the asking
# instant has; internal/kernel/midnight_test.go has this day.
# Ground: calendars
#
# Use: luxon-gives-one-day-two-starts.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-3.7.2}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "luxon@$version" >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.cjs <<'END'
const { DateTime } = require('luxon');
const start = (at) => DateTime.fromISO(at, { zone: 'Atlantic/Azores' }).startOf('day').toISO({ suppressMilliseconds: true });
console.log([start('2026-10-25T00:30:00Z'), start('2026-10-25T12:00:00Z')].join(', '));
END
echo "luxon $(node -p 'require("./node_modules/luxon/package.json").version'), node $(node --version)"
got=$(node main.cjs)
echo "$got"
[ "$got" = '2026-10-25T00:00:00+00:00, 2026-10-25T00:00:00-01:00' ] || { echo 'it has changed'; exit 1; }
