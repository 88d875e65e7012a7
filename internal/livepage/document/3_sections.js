"use strict";
// The sections of the page, each shown from the parts of the document that the page has.

const showNode = page => {
	setText(byID("node"), "caddy-redis-ratelimit " + page.node.version + ", Caddy " + page.node.caddy);
	setText(byID("time"), instant(page.at));
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

// The measures of a policy: where its number and its points are, and how the last ten minutes are said.
const sum = points => points.reduce((a, b) => a + b, 0);
const measures = [
	{name: "requests", count: c => c.met, all: p => number(sum(p)) + " in 10 min"},
	{name: "denied", count: c => c.denied, all: p => number(sum(p)) + " in 10 min"},
	{name: "would_be_denied", title: "would be denied", count: c => c.would_be_denied, all: p => number(sum(p)) + " in 10 min"},
	{name: "waiting", count: c => c.waiting, all: p => "max " + number(Math.max(...p)) + " in 10 min"},
	{name: "running", count: c => c.running, all: p => "max " + number(Math.max(...p)) + " in 10 min"},
];

const makePolicy = policy => {
	const parts = {row: element("li", "policy"), about: element("p", "faint"), mark: element("p"), measures: new Map(),
		more: element("details", "", element("summary", "", "Options and handlers"), element("ul"))};
	const list = element("dl", "measures");
	for (const m of measures) {
		const value = element("span", "number"), all = element("span", "faint"), svg = curve();
		const box = element("div", m.name, element("dt", "", m.title ?? m.name), element("dd", "", value, svg, all));
		parts.measures.set(m.name, {value, all, svg, box});
		list.append(box);
	}
	parts.row.append(element("div", "", element("h3", "", policy.name), parts.about, parts.mark, parts.more), list);
	return parts;
};

const updatePolicy = (parts, policy) => {
	if (parts.shown === policy.version) return;
	parts.shown = policy.version;
	setText(parts.about, policy.about.sentence);
	const c = policy.counts, marks = [];
	if (c.met === 0) marks.push("! never met since this node started");
	if (c.failed_open > 0) marks.push(counted(c.failed_open, "request") + " let through without a decision");
	if (c.failed_closed > 0) marks.push(counted(c.failed_closed, "request") + " refused without a decision");
	if (c.reserve_denied > 0) marks.push(counted(c.reserve_denied, "request") + " refused by the reserve");
	if (c.override) marks.push("override for all: " + effect(c.override));
	if (c.client_overrides) marks.push(counted(c.client_overrides, "client") + " with overrides");
	setText(parts.mark, marks.join("; "));
	parts.mark.className = c.met === 0 ? "bad" : "faint";
	for (const m of measures) {
		const box = parts.measures.get(m.name), points = policy.points[m.name], count = m.count(c);
		const shown = count !== undefined && (m.name !== "would_be_denied" || count > 0) && c.met > 0;
		show(box.box, shown);
		if (!shown) continue;
		setText(box.value, number(count));
		setText(box.all, m.all(points));
		draw(box.svg, points, (m.title ?? m.name) + ": " + m.all(points) + ", " + number(points.at(-1)) + " in the last step");
	}
	const lines = [...(policy.about.options ?? []).map(o => (o.name + " " + (o.value ?? "")).trim()), ...policy.about.handlers ?? []];
	if (policy.about.more) lines.push("and " + counted(policy.about.more, "more handler"));
	keep(parts.more.lastChild, lines.map((text, place) => ({text, place})), line => line.place, () => ({row: element("li")}), (p, line) => setText(p.row, line.text));
};

// mostRows is how many policies are shown at once.
const mostRows = 100;

const showPolicies = page => {
	const text = byID("filter").value, order = byID("order").value;
	let found = [...page.policies.values()].filter(p => p.name.includes(text));
	if (order !== "name") found = found.map(p => [sum(p.points[order]), p]).sort((a, b) => b[0] - a[0]).map(pair => pair[1]);
	keep(byID("policies"), found.slice(0, mostRows), p => p.name, makePolicy, updatePolicy);
	let more = found.length > mostRows ? "The first " + mostRows + " of " + number(found.length) + " policies; name others above." : "";
	if (found.length === 0) more = page.policies.size === 0 ? "There are no policies." : "No name has this text.";
	setText(byID("policies-more"), more);
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

// A row of a key: a line, and commands.
const makeRow = () => {
	const parts = {row: element("li"), line: element("p"), more: element("p", "faint"), key: element("code"), commands: commands()};
	parts.row.append(parts.line, parts.more, parts.commands);
	return parts;
};
const keyed = (parts, begin, key, end) => {
	if (!parts.begin) {
		parts.begin = element("span", "number");
		parts.end = element("span");
		parts.line.append(parts.begin, " ", parts.key, " ", parts.end);
	}
	setText(parts.begin, begin);
	setText(parts.key, key);
	setText(parts.end, end);
};
const rowKey = e => JSON.stringify([e.policy, e.key, e.range, e.all]);
const left = (until, page) => until ? ", for " + span(between(page.at, until)) : "";

const reasons = {
	blocked: "blocked by an override", banned: "banned", running: "too many of its requests run at once", limit: "has used up its quota",
};

// passes is the command that lets a key through.
const passes = k => {
	if (k.override) return removal(k.override);
	if (k.why === "running") return command("override", {policy: k.policy, key: k.key, exempt: true, for: "1h"});
	return command("reset", {policy: k.policy, key: k.key});
};

const showTop = page => {
	const top = page.top;
	setText(byID("top-about"), top.keys.length === 0 ? "On this node no key was denied lately." :
		"On this node since " + instant(top.begin, page.at) + ".");
	keep(byID("top"), top.keys, rowKey, makeRow, (parts, k) => {
		keyed(parts, number(k.denied) + (k.error ? " ±" + number(k.error) : ""), k.key, "of " + k.policy);
		setText(parts.more, reasons[k.why] + left(k.until, page));
		fill(parts.commands, [
			["explains", command("state", {policy: k.policy, key: k.key})], ["lets through", passes(k)],
			["blocks for an hour", command("override", {policy: k.policy, key: k.key, block: true, for: "1h"})],
			...everywhere(k.key),
		]);
	});
};

const showUsed = page => {
	show(byID("used-section"), page.used !== undefined);
	if (!page.used) return;
	setText(byID("used-about"), page.used.about ?? "");
	keep(byID("used"), page.used.keys, rowKey, makeRow, (parts, k) => {
		keyed(parts, number(k.used) + (k.error ? " ±" + number(k.error) : ""), k.key, "of " + k.policy);
		fill(parts.commands, [
			["explains", command("state", {policy: k.policy, key: k.key})],
			["blocks for an hour", command("override", {policy: k.policy, key: k.key, block: true, for: "1h"})],
		]);
	});
};

const showBans = page => {
	const b = page.bans;
	let about = b.total === 0 ? "No client is banned." : counted(b.total, "client") + (b.complete ? "" : " or more") + " on all nodes.";
	if (b.total > 0) about += " A ban refuses the requests that its policy meets, and no others.";
	if (b.error) about = "Redis does not tell the bans of all nodes: " + b.error;
	if (b.total > b.bans.length) about += " The longest " + b.bans.length + ":";
	setText(byID("bans-about"), about);
	keep(byID("bans"), b.bans.filter(e => between(page.at, e.until) > 0), rowKey, makeRow, (parts, e) => {
		keyed(parts, span(between(page.at, e.until)), e.key, "of " + e.policy);
		setText(parts.more, counted(e.offenses, "offense"));
		fill(parts.commands, [["lifts the ban", command("override", {policy: e.policy, key: e.key, unban: true})], ...everywhere(e.key)]);
	});
};

const showOverrides = page => {
	const o = page.overrides;
	let about = o.total === 0 ? "There are none." : "";
	if (o.total > o.overrides.length) about = "The first " + o.overrides.length + " of " + number(o.total) + ":";
	if (o.stale) about += " Redis cannot be read: these go on, others may have been set.";
	setText(byID("overrides-about"), about.trim());
	keep(byID("overrides"), o.overrides.filter(e => !e.until || between(page.at, e.until) > 0), rowKey, makeRow, (parts, e) => {
		keyed(parts, effect(e), e.all ? "all" : e.range ?? e.key, (e.policy ? "of " + e.policy : "for all policies") + left(e.until, page));
		setText(parts.more, [e.note, e.node_only ? "on this node alone, until Redis decides again" : ""].filter(Boolean).join("; "));
		fill(parts.commands, [["removes it", removal(e)]]);
	});
};

const showWarnings = page => {
	setText(byID("warnings-about"), page.warnings.length === 0 ? "There are none since this node started." : "");
	keep(byID("warnings"), page.warnings, w => w.text + "\n" + w.details, () => {
		const parts = {row: element("li"), line: element("p"), more: element("p", "faint")};
		parts.row.append(parts.line, parts.more);
		return parts;
	}, (parts, w) => {
		setText(parts.line, instant(w.last, page.at) + (w.times > 1 ? ", " + number(w.times) + " times" : "") + ": " + w.text);
		setText(parts.more, w.details ?? "");
	});
};
