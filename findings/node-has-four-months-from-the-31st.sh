#!/usr/bin/env bash
# Of a month that begins on 31 January each of these packages makes something else. rrule leaves out February and every short month.
# date-fns, dayjs and Luxon, which add a month to the last date, stay at the 28th after February. Agenda's "1 month" is 30 days, and
# goes through all days of a month. croner's L is the last day. On 28 February a month is over by date-fns, dayjs and Luxon, and
# not by Temporal, for which it is over on 1 March.
#
# Seen on 2026-11-30 with rrule 2.8.1, date-fns 4.4.0, dayjs 1.11.23, luxon 3.7.2, agenda 6.2.6, croner 11.0.1,
# @js-temporal/polyfill 0.5.1 and node 20:
#   rrule 01-31 03-31 05-31 07-31
#   date-fns 01-31 02-28 03-28 04-28
#   dayjs 01-31 02-28 03-28 04-28
#   luxon 01-31 02-28 03-28 04-28
#   agenda 01-31 03-02 04-01 05-01
#   croner 01-31 02-28 03-31 04-30
#   months by 02-28: date-fns 1, dayjs 1, luxon 1, temporal 0
# Guess: all have the last day of each month, as a customer's bill; or all drift alike.
# Follows from it: docs/recipes.md, "A customer's month": the day of the contract is what a quota begins by, not that of the last bill.
# Ground: calendars
#
# Use: node-has-four-months-from-the-31st.sh [latest]. Needs npm and node.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
packages=(rrule@2.8.1 date-fns@4.4.0 dayjs@1.11.23 luxon@3.7.2 agenda@6.2.6 croner@11.0.1 @js-temporal/polyfill@0.5.1)
if [ "${1:-}" = latest ]; then packages=("${packages[@]%@*}"); fi
npm install --silent --no-audit --no-fund --prefix . "${packages[@]}" >/dev/null
cat >months.mjs <<'END_OF_SCRIPT'
import {readFileSync} from 'node:fs';
import rrule from 'rrule';
import {addMonths, differenceInMonths, format} from 'date-fns';
import dayjs from 'dayjs';
import {DateTime} from 'luxon';
import {Cron} from 'croner';
import {Temporal} from '@js-temporal/polyfill';

const {Job} = await import(new URL('node_modules/agenda/dist/Job.js', import.meta.url));
for (const name of ['rrule', 'date-fns', 'dayjs', 'luxon', 'agenda', 'croner', '@js-temporal/polyfill'])
	console.error(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);

const begin = new Date('2027-01-31T00:00:00Z');
const day = date => date.toISOString().slice(5, 10);
const four = (first, next) => {
	const all = [first];
	while (all.length < 4) all.push(next(all.at(-1)));
	return all;
};
const afterwards = lastRunAt => {
	const attributes = {name: 'bill', type: 'normal', repeatInterval: '1 month', repeatTimezone: 'UTC', lastRunAt};
	const job = new Job({attrs: {}, definitions: {}}, attributes);
	return job.computeNextRunAt().attrs.nextRunAt;
};
const say = (name, days) => console.log(name, days.join(' '));
say('rrule', new rrule.RRule({freq: rrule.RRule.MONTHLY, dtstart: begin, count: 4}).all().map(day));
say('date-fns', four(begin, d => addMonths(d, 1)).map(d => format(d, 'MM-dd')));
say('dayjs', four(dayjs(begin), d => d.add(1, 'month')).map(d => d.format('MM-DD')));
say('luxon', four(DateTime.fromJSDate(begin), d => d.plus({months: 1})).map(d => d.toFormat('MM-dd')));
say('agenda', four(begin, afterwards).map(day));
say('croner', new Cron('0 0 L * *', {timezone: 'UTC'}).nextRuns(4, new Date('2027-01-15T00:00:00Z')).map(day));
const end = new Date('2027-02-28T00:00:00Z');
console.log('months by 02-28:', [
	`date-fns ${differenceInMonths(end, begin)}`,
	`dayjs ${dayjs(end).diff(begin, 'month')}`,
	`luxon ${DateTime.fromJSDate(end).diff(DateTime.fromJSDate(begin), 'months').months}`,
	`temporal ${Temporal.PlainDate.from('2027-01-31').until('2027-02-28', {largestUnit: 'month'}).months}`,
].join(', '));
END_OF_SCRIPT
got=$(TZ=UTC node months.mjs)
echo "$got"
want='rrule 01-31 03-31 05-31 07-31
date-fns 01-31 02-28 03-28 04-28
dayjs 01-31 02-28 03-28 04-28
luxon 01-31 02-28 03-28 04-28
agenda 01-31 03-02 04-01 05-01
croner 01-31 02-28 03-31 04-30
months by 02-28: date-fns 1, dayjs 1, luxon 1, temporal 0'
[ "$got" = "$want" ] || { echo 'it has changed'; exit 1; }
