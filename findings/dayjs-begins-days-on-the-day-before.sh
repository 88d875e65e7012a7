#!/usr/bin/env bash
# startOf('day') of dayjs is an instant of the day before where the clocks go forward at midnight and the zone is east of
# Greenwich. Luxon, moment-timezone and Temporal return 01:00 of the day.
#
# Seen on 2026-11-28 with dayjs 1.11.23 and node 20.20.2: "Cairo: 2026-04-23T21:00:00.000Z, Santiago:
# 2026-09-06T04:00:00.000Z", asked in the middle of 24 April and of 6 September: the former is 23:00 of 23 April in Cairo, the
# latter 01:00 of 6 September in Santiago.
# Guess: 01:00 of the day that was asked for, as in the zones west of Greenwich.
# Follows from it: docs/responses.md, "Usage": a page that shows when a quota begins anew reads it there, and works no day out.
# Ground: calendars
#
# Use: dayjs-begins-days-on-the-day-before.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-1.11.23}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "dayjs@$version" >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.cjs <<'END'
const dayjs = require('dayjs');
dayjs.extend(require('dayjs/plugin/utc'));
dayjs.extend(require('dayjs/plugin/timezone'));
const start = (noon, zone) => dayjs(noon).tz(zone).startOf('day').toISOString();
console.log(`Cairo: ${start('2026-04-24T10:00:00Z', 'Africa/Cairo')}, Santiago: ${start('2026-09-06T15:00:00Z', 'America/Santiago')}`);
END
echo "dayjs $(node -p 'require("./node_modules/dayjs/package.json").version'), node $(node --version)"
got=$(node main.cjs)
echo "$got"
[ "$got" = 'Cairo: 2026-04-23T21:00:00.000Z, Santiago: 2026-09-06T04:00:00.000Z' ] || { echo 'it has changed'; exit 1; }
