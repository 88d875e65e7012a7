"use strict";
// What is written in words: numbers, times, and commands for a shell.

const number = n => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
const counted = (n, noun) => number(n) + " " + noun + (n === 1 ? "" : "s");

// A time of the server is written in the browser's zone, with UTC beside it where that is another one.
const two = n => String(n).padStart(2, "0");
const dayOf = at => at.getFullYear() + "-" + two(at.getMonth() + 1) + "-" + two(at.getDate());
const clockOf = at => two(at.getHours()) + ":" + two(at.getMinutes()) + ":" + two(at.getSeconds());
const zones = new Intl.DateTimeFormat("en", {timeZoneName: "short"});
const zoneOf = at => zones.formatToParts(at).find(part => part.type === "timeZoneName").value;

// instant leaves out the day that now has, and says UTC's day where that is not the browser's.
const instant = (text, now) => {
	const at = new Date(text), utc = at.toISOString(), day = dayOf(at), local = clockOf(at);
	const begin = now && day === dayOf(new Date(now)) ? "" : day + " ";
	if (at.getTimezoneOffset() === 0) return begin + local + " UTC";
	return begin + local + " (" + (utc.slice(0, 10) === day ? "" : utc.slice(0, 10) + " ") + utc.slice(11, 19) + " UTC)";
};

// clock writes the time now, with the name of the browser's zone.
const clock = text => {
	const at = new Date(text);
	if (at.getTimezoneOffset() === 0) return instant(text);
	return dayOf(at) + " " + clockOf(at) + " " + zoneOf(at) + ", " + at.toISOString().slice(11, 19) + " UTC";
};

// span writes a time span in seconds, in its two largest units.
const span = seconds => {
	let rest = Math.max(0, Math.round(seconds));
	const parts = [];
	for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
		const n = Math.floor(rest / length);
		rest -= n * length;
		if (n > 0) parts.push(n + " " + unit);
	}
	return parts.slice(0, 2).join(" ") || "0 s";
};
const between = (from, to) => (new Date(to) - new Date(from)) / 1000;
const milliseconds = seconds => (seconds * 1000).toFixed(2) + " ms";

// quoted writes a text as one word of a POSIX shell.
const quoted = text => /^[\w@%+=:,.\/-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";

// command writes a command of this module with its options: a text, or true for an option without one.
const command = (name, options) => {
	const words = [document.body.dataset.command, name];
	for (const [option, value] of Object.entries(options)) {
		words.push("--" + option);
		if (value !== true) words.push(quoted(value));
	}
	return words.join(" ") + document.body.dataset.flags;
};

// target is the options that name whose an override is. A block for all policies has no policy.
const target = entry => {
	const of = entry.policy ? {policy: entry.policy} : {};
	if (entry.range) return {...of, range: entry.range};
	return entry.all ? {...of, all: true} : {...of, key: entry.key};
};
const removal = entry => command("override", {...target(entry), remove: true});

// everywhere is the command that blocks a key for all policies, for an hour, if the key is that of an address; else nothing.
const everywhere = key => /^(%ip:)?[0-9a-f]*[.:][0-9a-f.:\/]+$/.test(key) ?
	[["blocks for an hour, for all policies", command("override", {key: key, block: true, for: "1h"})]] : [];

// effect says what an override does.
const effect = entry => {
	if (entry.block) return "blocked";
	if (entry.exempt) return "exempt";
	return "limit " + number(entry.limit) + (entry.burst ? ", burst " + number(entry.burst) : "");
};
