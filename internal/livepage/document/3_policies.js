"use strict";
// The table of policies, each a row with the curves of ten minutes, and the sums of all nodes beside.

// The measures of a policy: where its number and its points are, and how its ten minutes are written and said.
const sum = points => points.reduce((a, b) => a + b, 0);
const summed = {short: p => number(sum(p)), all: p => number(sum(p)) + " in 10 min"};
const highest = {short: p => "max " + number(Math.max(...p)), all: p => "max " + number(Math.max(...p)) + " in 10 min"};
const measures = [
	{name: "requests", title: "Requests", count: c => c.met, ...summed},
	{name: "denied", title: "Denied", count: c => c.denied, ...summed},
	{name: "would_be_denied", title: "Would be denied", count: c => c.would_be_denied || undefined, ...summed},
	{name: "bans", title: "Bans", count: (c, p) => sum(p) || undefined, short: () => "", all: summed.all},
	{name: "waiting", title: "Waiting", count: c => c.waiting, ...highest},
	{name: "running", title: "Running", count: c => c.running, ...highest},
];
// inSum are the measures that have a column for the sum of all nodes, of a class of its own.
const inSum = measures.filter(m => ["requests", "denied", "running"].includes(m.name)).map(m => ({...m, column: "all-" + m.name}));

const policyColumns = [
	["policy", "Policy"], ["limit", "Limit"], ["state", "State"], ...measures.map(m => [m.name, m.title]),
	...inSum.map(m => [m.column, m.title + ", all nodes"]), ["open", "Options"],
];

// headPolicies makes the head of the table. Where there are sums, a row above says whose the measures are.
const headPolicies = table => {
	head(table, policyColumns.map(([className, name]) => [className, inSum.find(m => m.column === className)?.title ?? name]));
	const group = text => {
		const th = cell("th", "columnheader", "group", text);
		th.scope = "colgroup";
		return th;
	};
	const heads = {begin: cell("td", "cell"), own: group("This node"), nodes: group(""), end: cell("td", "cell")};
	heads.begin.colSpan = 3;
	heads.row = line(heads.begin, heads.own, heads.nodes, heads.end);
	table.tHead.prepend(heads.row);
	return heads;
};

const makePolicy = policy => {
	const parts = row(policyColumns, "policy", "Options");
	parts.measures = new Map();
	parts.row.classList.add("of-policy");
	parts.cells.policy.append(policy.name);
	parts.button.setAttribute("aria-label", "Options and handlers of " + policy.name);
	for (const m of measures) {
		const value = element("span", "number"), short = element("span", "faint"), svg = curve();
		parts.cells[m.name].append(value, " ", svg, " ", short);
		parts.measures.set(m.name, {value, short, svg});
	}
	parts.since = element("p", "faint");
	parts.lines = element("ul");
	parts.more.append(parts.since, parts.lines);
	return parts;
};

// marksOf says what holds for a policy now.
const marksOf = c => {
	const marks = [];
	if (c.met === 0) marks.push("! never met");
	if (c.reserve_denied) marks.push(counted(c.reserve_denied, "request") + " refused by the reserve");
	if (c.override) marks.push(effect(c.override) + " for all clients");
	if (c.client_overrides) marks.push(counted(c.client_overrides, "client") + " with overrides");
	return marks.join("; ");
};

// sinceStart are the counts that a row's second part names.
const sinceStart = [
	["met", "met"], ["denied", "denied"], ["would_be_denied", "would be denied"], ["denied_by_other", "denied by other policies"],
	["failed_open", "let through by fail_mode"], ["failed_closed", "refused by fail_mode"], ["counted", "counted"],
];

const updatePolicy = (parts, policy) => {
	if (parts.shown === policy.version) return;
	parts.shown = policy.version;
	const c = policy.counts, cells = parts.cells;
	setText(cells.limit, policy.about.sentence);
	setText(cells.state, marksOf(c));
	cells.state.className = c.met === 0 ? "state bad" : "state";
	for (const m of measures) {
		const box = parts.measures.get(m.name), points = policy.points[m.name], count = m.count(c, points);
		const shown = count !== undefined && c.met > 0;
		cells[m.name].classList.toggle("empty", !shown);
		if (!shown) continue;
		setText(box.value, number(count));
		setText(box.short, m.short(points));
		draw(box.svg, points, m.title.toLowerCase() + ": " + m.all(points) + ", " + number(points.at(-1)) + " in the last step");
	}
	setText(parts.since, "Since this node started: " +
		sinceStart.filter(([name]) => c[name]).map(([name, text]) => number(c[name]) + " " + text).join(", ") + ".");
	show(parts.since, c.met > 0);
	const lines = [...(policy.about.options ?? []).map(o => (o.name + " " + (o.value ?? "")).trim()), ...policy.about.handlers ?? []];
	if (policy.about.more) lines.push("and " + counted(policy.about.more, "more handler"));
	showLines(parts.lines, lines);
};

// nodesText says whose sums the page has.
const nodesText = n => {
	if (!n) return "Other nodes are asked.";
	if (n.alone) return "This node alone: " + n.alone + ".";
	if (n.known === 1) return "No other node has answered.";
	return "Sums of " + (n.answered < n.known ? number(n.answered) + " of " : "") + counted(n.known, "node") + ".";
};

// mostRows is how many policies are shown at once.
const mostRows = 100;

const showPolicies = page => {
	const table = byID("policies"), text = byID("filter").value, order = byID("order").value;
	const heads = table.heads ??= headPolicies(table);
	const policies = [...page.policies.values()], n = page.nodes, together = n && !n.alone && n.known > 1;
	let found = policies.filter(p => p.name.includes(text));
	if (order !== "name") found = found.map(p => [sum(p.points[order]), p]).sort((a, b) => b[0] - a[0]).map(pair => pair[1]);
	found = found.slice(0, mostRows);
	keep(table, found, p => p.name, makePolicy, (parts, policy) => {
		updatePolicy(parts, policy);
		const sums = together ? n.sums[policy.name] : undefined;
		for (const m of inSum) setText(parts.cells[m.column], sums ? number(sums[m.name]) : "");
	});
	const isUsed = (m, place) => place < 2 || policies.some(p => m.count(p.counts, p.points[m.name]) !== undefined);
	const used = measures.filter(isUsed), usedInSum = inSum.filter(m => together && used.some(u => u.name === m.name));
	for (const m of measures) table.classList.toggle("no-" + m.name, !used.includes(m));
	for (const m of inSum) table.classList.toggle("no-" + m.column, !usedInSum.includes(m));
	show(heads.row, together);
	heads.own.colSpan = used.length;
	heads.nodes.colSpan = Math.max(1, usedInSum.length);
	if (together) setText(heads.nodes, number(n.answered) + " of " + counted(n.known, "node") + ", 10 min");
	show(table, found.length > 0);
	setText(byID("policies-about"), "Since this node started, with the curve and the sum of ten minutes. " + nodesText(n));
	const matching = policies.filter(p => p.name.includes(text)).length;
	let more = matching > mostRows ? "The first " + mostRows + " of " + number(matching) + " policies; name others above." : "";
	if (matching === 0) more = policies.length === 0 ? "There are no policies." : "No name has this text.";
	setText(byID("policies-more"), more);
};
