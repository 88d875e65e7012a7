"use strict";
// Asks for the document each second, keeps what it has, and shows it. The part of the address behind # is a secret that no
// other server on this machine gets: cookies go to all ports of a host.

const every = 1000; // milliseconds
const key = location.hash.slice(1);
const lists = ["requests", "denied", "would_be_denied", "bans", "waiting", "running"];
const shows = {
	node: showNode, store: showStore, browsers: showBrowsers, crawlers: showCrawlers, top: showTop, used: showUsed, bans: showBans, overrides: showOverrides, warnings: showWarnings,
};
let page = {policies: new Map(), last: 0};
let next = "", answered = 0, timer = 0;

// shifted returns the points of a list after so many steps: what is new stands at the end, and is 0 if it was left out.
const shifted = (before, fresh, steps, kept) => {
	const points = [...before, ...Array(Math.min(steps, kept)).fill(0)].slice(-kept);
	fresh.slice(-kept).forEach((n, i, all) => { points[kept - all.length + i] = n; });
	return points;
};

// take adds an answer to what the page has.
const take = answer => {
	const before = answer.full ? new Map() : page.policies;
	const {policies, points, ...sections} = answer;
	page = {...(answer.full ? {} : page), ...sections, policies: before, last: points.last};
	const steps = answer.full ? points.kept : points.last - (take.last ?? 0);
	take.last = points.last;
	const fresh = new Map(policies.map(p => [p.name, p]));
	for (const name of fresh.keys()) {
		if (!before.has(name)) before.set(name, {name, version: 0, points: Object.fromEntries(lists.map(l => [l, Array(points.kept).fill(0)]))});
	}
	for (const policy of before.values()) {
		const p = fresh.get(policy.name);
		if (!p && steps === 0) continue;
		policy.version = take.versions = (take.versions ?? 0) + 1;
		policy.about = p?.about ?? policy.about;
		policy.counts = p?.counts ?? policy.counts;
		for (const l of lists) policy.points[l] = shifted(policy.points[l], p?.points?.[l] ?? [], steps, points.kept);
	}
	next = answer.next;
};

const showAll = () => {
	showPolicies(page);
	setText(byID("time"), clock(page.at));
	for (const [name, shown] of Object.entries(shows)) {
		if (page[name] !== undefined || name === "used" || name === "browsers" || name === "crawlers") shown(page);
	}
	showAttention(page);
};

// trouble says why there is no answer, and goes on with what the page has.
const trouble = text => {
	show(byID("trouble"), text !== "");
	setText(byID("trouble"), text);
	if (text !== "" && answered > 0) setText(byID("time"), "last answer " + span((Date.now() - answered) / 1000) + " ago");
};

const ask = async () => {
	try {
		const response = await fetch("/data?since=" + encodeURIComponent(next), {headers: {"Page-Key": key}, signal: AbortSignal.timeout(15000)});
		const answer = await response.json();
		if (!response.ok) return trouble(answer.error);
		take(answer);
		answered = Date.now();
		trouble("");
		showAll();
	} catch (error) {
		trouble("The command that serves this page does not answer. It may have ended: start it again, and open its new address. (" + error.message + ")");
	}
};

// run asks while the page can be seen.
const run = async () => {
	clearTimeout(timer);
	if (document.hidden) return;
	await ask();
	clearTimeout(timer);
	timer = setTimeout(run, every);
};
document.addEventListener("visibilitychange", run);
for (const id of ["filter", "order"]) byID(id).addEventListener("input", () => showPolicies(page));
run();
