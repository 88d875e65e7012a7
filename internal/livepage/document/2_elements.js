"use strict";
// How elements are made and kept. All text becomes a text node: nothing of it is ever read as HTML.

const byID = id => document.getElementById(id);

// element makes an element of a class, with texts and elements within.
const element = (name, className, ...within) => {
	const e = document.createElement(name);
	if (className) e.className = className;
	e.append(...within);
	return e;
};

// setText changes a text only if it is another one, so that screen readers read it once.
const setText = (e, text) => {
	if (e.textContent !== text) e.textContent = text;
};
const show = (e, shown) => {
	if (e.hidden === shown) e.hidden = !shown;
};

// keep makes a list show the items in their order. An item that was there keeps its element, with its focus and what is
// open in it. update gets the parts that make has made.
const keep = (list, items, keyOf, make, update) => {
	const known = list.kept ??= new Map();
	const keys = new Set(items.map(keyOf)), focused = document.activeElement;
	for (const [key, parts] of known) {
		if (keys.has(key)) continue;
		parts.row.remove();
		known.delete(key);
	}
	items.forEach((item, place) => {
		const key = keyOf(item);
		if (!known.has(key)) known.set(key, make(item));
		const parts = known.get(key);
		update(parts, item);
		if (list.children[place] !== parts.row) list.insertBefore(parts.row, list.children[place] ?? null);
	});
	if (focused !== document.activeElement && list.contains(focused)) focused.focus({preventScroll: true}); // it has moved
};

// curve makes a small curve; draw shows numbers in it.
const curve = () => {
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	svg.setAttribute("role", "img");
	svg.setAttribute("preserveAspectRatio", "none");
	svg.append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
	return svg;
};
const draw = (svg, points, label) => {
	const most = Math.max(1, ...points);
	const line = points.map((n, x) => (x ? "L" : "M") + x + " " + (1 + 18 * (1 - n / most)).toFixed(1)).join("");
	svg.setAttribute("viewBox", "0 0 " + (points.length - 1) + " 20");
	svg.firstChild.setAttribute("d", line);
	svg.setAttribute("aria-label", label);
};

// commands makes the part of a row that shows commands. fill shows other ones: pairs of what each does and the command.
const commands = () => element("details", "", element("summary", "", "Commands"), element("div"));
const fill = (details, pairs) => keep(details.lastChild, pairs, pair => pair[0], ([purpose]) => {
	const code = element("code"), button = element("button", "", "Copy");
	button.type = "button";
	button.setAttribute("aria-label", "Copy the command: " + purpose);
	button.addEventListener("click", () => copy(code));
	return {row: element("div", "command", element("span", "faint", purpose + ":"), code, button), code};
}, (parts, pair) => setText(parts.code, pair[1]));

// copy copies a command, or selects it where the browser does not allow that.
const copy = async code => {
	try {
		await navigator.clipboard.writeText(code.textContent);
		setText(byID("copied"), "Copied.");
	} catch {
		getSelection().selectAllChildren(code);
		setText(byID("copied"), "The browser does not allow it; the command is selected.");
	}
};
