"use strict";
// The sections of the page, each shown from the parts of the document that the page has.

const showNode = page => {
	const n = page.node, title = "Rate limits" + (n.name ? " of " + n.name : "");
	setText(byID("title"), title);
	document.title = title;
	setText(byID("node"), (n.address ? n.address + ", " : "") + "caddy-redis-ratelimit " + n.version + ", Caddy " + n.caddy);
};

const showStore = page => {
	const s = page.store, line = byID("store");
	if (s.kind === "memory") {
		line.className = "good";
		setText(line, "The memory of this process decides.");
		setText(byID("store-more"), number(s.memory_keys) + " of at most " + counted(s.max_keys, "key"));
		return;
	}
	const since = s.healthy ? s.deciding_since : s.failing_since;
	line.className = s.healthy ? "good" : "bad";
	setText(line, (s.healthy ? "Redis decides" : "Redis does not decide") + (since ? " since " + instant(since, page.at) : "") +
		(s.healthy ? "." : ": " + s.error + ". Handlers do " + s.fail_mode + "."));
	const more = [s.mode + " " + s.addresses.join(", ")];
	if (since) more.push("for " + span(between(since, page.at)));
	if (s.healthy) more.push("decided in " + milliseconds(s.round_trip));
	more.push("breaker " + s.breaker + (s.next_probe > 0 ? ", next probe in " + span(s.next_probe) : ""));
	setText(byID("store-more"), more.join("; "));
};

const showBrowsers = page => {
	const b = page.browsers;
	show(byID("browsers"), b !== undefined);
	if (!b) return;
	setText(byID("browsers"), "Browsers that wait: " + counted(b.shown, "page") + " shown to strangers, " + number(b.passed) + " passed" +
		(b.cookieless > 0 ? ", " + number(b.cookieless) + " went on for one page" : "") + ".");
};

const showCrawlers = page => {
	const claimed = (page.crawlers ?? []).filter(c => c.verified + c.forged + c.unknown > 0);
	show(byID("crawlers"), page.crawlers !== undefined);
	const told = c => c.name + " " + number(c.verified) + " verified, " + number(c.forged) + " forged, " + number(c.unknown) + " unknown";
	setText(byID("crawlers"), claimed.length === 0 ? "No request has claimed a crawler." : "Requests that claim crawlers: " + claimed.map(told).join("; ") + ".");
};

// Tables of keys: a number, the key, its policy, its state, and commands.
const keyColumns = (first, state) => [["count", first], ["key", "Key"], ["of", "Policy"], ...state ? [["state", state]] : [], ["open", "Commands"]];

// showKeys shows entries in a table: each with a key, and what cells returns by column, and the commands.
const showKeys = (id, columns, entries, cells, commands) => {
	const table = byID(id);
	if (!table.tHead) head(table, columns);
	show(table, entries.length > 0);
	keep(table, entries, rowKey, () => {
		const parts = row(columns, "key", "Commands");
		parts.code = element("code");
		parts.cells.key.append(parts.code);
		return parts;
	}, (parts, e) => {
		setText(parts.code, e.all ? "all" : e.range ?? e.key);
		setText(parts.cells.of, e.policy ?? "all");
		for (const [name, text] of Object.entries(cells(e))) setText(parts.cells[name], text);
		fill(parts.more, commands(e));
		parts.button.setAttribute("aria-label", "Commands for " + parts.code.textContent);
	});
};
const rowKey = e => JSON.stringify([e.policy, e.key, e.range, e.all]);
const left = (until, page) => until ? ", " + span(between(page.at, until)) : "";
const within = e => number(e.denied ?? e.used) + (e.error ? " ±" + number(e.error) : "");

const reasons = {blocked: "blocked", banned: "banned", running: "too many at once", limit: "quota used up"};

// passes is the command that lets a key through.
const passes = k => {
	if (k.override) return removal(k.override);
	if (k.why === "running") return command("override", {policy: k.policy, key: k.key, exempt: true, for: "1h"});
	return command("reset", {policy: k.policy, key: k.key});
};
const explains = k => ["explains", command("state", {policy: k.policy, key: k.key})];
const blocks = k => ["blocks for an hour", command("override", {policy: k.policy, key: k.key, block: true, for: "1h"})];

const topColumns = keyColumns("Denied", "State");
const showTop = page => {
	const top = page.top;
	setText(byID("top-about"), top.keys.length === 0 ? "On this node no key was denied lately." :
		"On this node since " + instant(top.begin, page.at) + ".");
	showKeys("top", topColumns, top.keys, k => ({count: within(k), state: reasons[k.why] + left(k.until, page)}),
		k => [explains(k), ["lets through", passes(k)], blocks(k), ...everywhere(k.key)]);
};

const usedColumns = keyColumns("Units");
const showUsed = page => {
	show(byID("used-section"), page.used !== undefined);
	if (!page.used) return;
	setText(byID("used-about"), page.used.about ?? "");
	showKeys("used", usedColumns, page.used.keys, k => ({count: within(k)}), k => [explains(k), blocks(k)]);
};

const banColumns = keyColumns("Ends in", "State");
const showBans = page => {
	const b = page.bans;
	let about = b.total === 0 ? "No client is banned." : counted(b.total, "client") + (b.complete ? "" : " or more") + " on all nodes.";
	if (b.total > 0) about += " A ban refuses the requests that its policy meets, and no others.";
	if (b.error) about = "Redis does not tell the bans of all nodes: " + b.error;
	if (b.total > b.bans.length) about += " The longest " + b.bans.length + ":";
	setText(byID("bans-about"), about);
	showKeys("bans", banColumns, b.bans.filter(e => between(page.at, e.until) > 0),
		e => ({count: span(between(page.at, e.until)), state: counted(e.offenses, "offense")}),
		e => [["lifts the ban", command("override", {policy: e.policy, key: e.key, unban: true})], ...everywhere(e.key)]);
};

const overrideColumns = keyColumns("Effect", "State");
const showOverrides = page => {
	const o = page.overrides;
	let about = o.total === 0 ? "There are none." : "";
	if (o.total > o.overrides.length) about = "The first " + o.overrides.length + " of " + number(o.total) + ":";
	if (o.stale) about += " Redis cannot be read: these go on, others may have been set.";
	setText(byID("overrides-about"), about.trim());
	const state = e => [
		e.until ? "for " + span(between(page.at, e.until)) : "", e.node_only ? "on this node alone, until Redis decides again" : "", e.note,
	];
	showKeys("overrides", overrideColumns, o.overrides.filter(e => !e.until || between(page.at, e.until) > 0),
		e => ({count: effect(e), state: state(e).filter(Boolean).join("; ")}), e => [["removes it", removal(e)]]);
};

const warningColumns = [["time", "Last"], ["count", "Times"], ["text", "Warning"]];
const showWarnings = page => {
	const table = byID("warnings");
	if (!table.tHead) head(table, warningColumns);
	show(table, page.warnings.length > 0);
	setText(byID("warnings-about"), page.warnings.length === 0 ? "There are none since this node started." : "");
	keep(table, page.warnings, w => w.text + "\n" + w.details, () => {
		const parts = row(warningColumns, "text");
		parts.line = element("span");
		parts.details = element("span", "faint");
		parts.cells.text.append(parts.line, " ", parts.details);
		return parts;
	}, (parts, w) => {
		setText(parts.cells.time, instant(w.last, page.at));
		setText(parts.cells.count, number(w.times));
		setText(parts.line, w.text);
		setText(parts.details, w.details ?? "");
	});
};

// What needs attention: an hour's warnings, at most so many, and what the sections say of it below.
const mostLines = 3;
const risingBans = page => {
	const points = [...page.policies.values()].map(p => p.points.bans), half = Math.floor((points[0]?.length ?? 0) / 2);
	const before = sum(points.map(p => sum(p.slice(0, -half)))), lately = sum(points.map(p => sum(p.slice(-half))));
	if (lately <= before) return [];
	return ["Bans rise: " + number(lately) + " began on this node in the last five minutes, " + number(before) + " in the five before."];
};
const showAttention = page => {
	const n = page.nodes, warnings = (page.warnings ?? []).filter(w => between(w.last, page.at) < 3600);
	const lines = risingBans(page);
	if (page.overrides?.stale) lines.push("Overrides cannot be read from Redis.");
	if (n && n.answered < n.known) lines.push(counted(n.known - n.answered, "node") + " of " + number(n.known) + " did not answer.");
	const ago = w => span(between(w.last, page.at)).split(" ").slice(0, 2).join(" ") + " ago: " + w.text;
	lines.push(...warnings.slice(0, mostLines).map(ago));
	if (warnings.length > mostLines) lines.push("and " + counted(warnings.length - mostLines, "more warning") + " in the last hour, below.");
	if (lines.length === 0) lines.push(page.store?.healthy ? "Nothing needs attention: no warning in the last hour." : "");
	showLines(byID("attention"), lines);
	byID("attention").className = lines[0].startsWith("Nothing") ? "good" : "bad";
};
