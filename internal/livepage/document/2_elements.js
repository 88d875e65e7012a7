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

// keep makes a list or a table show the items in their order, behind what it had first. An item that was there keeps its element,
// with its focus and what is open in it. update gets the parts that make has made.
const keep = (list, items, keyOf, make, update) => {
	const first = list.first ??= list.children.length;
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
		const there = list.children[first + place] ?? null;
		if (there !== parts.row) list.insertBefore(parts.row, there);
	});
	if (focused !== document.activeElement && list.contains(focused)) focused.focus({preventScroll: true}); // it has moved
};

// showLines makes a list show lines of text.
const showLines = (list, lines) => keep(list, lines.map((text, place) => ({text, place})), line => line.place,
	() => ({row: element("li")}), (parts, line) => setText(parts.row, line.text));

// Tables keep their roles where a narrow screen shows their rows as blocks.
const cell = (name, role, className, text) => {
	const e = element(name, className, text ?? "");
	e.setAttribute("role", role);
	return e;
};
const group = name => {
	const e = element(name);
	e.setAttribute("role", "rowgroup");
	return e;
};
const line = (...cells) => {
	const e = element("tr", "", ...cells);
	e.setAttribute("role", "row");
	return e;
};

// head gives a table the names of its columns: pairs of a class and a name.
const head = (table, columns) => {
	const cells = columns.map(([className, name]) => {
		const th = cell("th", "columnheader", className, name);
		th.scope = "col";
		return th;
	});
	const thead = group("thead");
	thead.append(line(...cells));
	table.append(thead);
	return cells;
};

// row makes a row with cells of the columns, of which one names the row. If it has a button, that opens a second row below with
// what is in parts.more.
let rows = 0;
const row = (columns, header, button) => {
	const parts = {row: group("tbody"), cells: {}};
	const cells = columns.map(([className, name]) => {
		const c = className === header ? cell("th", "rowheader", className) : cell("td", "cell", className);
		if (className === header) c.scope = "row";
		c.dataset.column = name;
		return parts.cells[className] = c;
	});
	parts.row.append(line(...cells));
	if (!button) return parts;
	parts.more = cell("td", "cell", "more");
	parts.more.colSpan = columns.length;
	const below = line(parts.more);
	below.id = "row-" + ++rows;
	below.hidden = true;
	parts.button = element("button", "", button);
	parts.button.type = "button";
	parts.button.setAttribute("aria-expanded", "false");
	parts.button.setAttribute("aria-controls", below.id);
	parts.button.addEventListener("click", () => {
		below.hidden = !below.hidden;
		parts.button.setAttribute("aria-expanded", String(!below.hidden));
	});
	cells.at(-1).append(parts.button);
	parts.row.append(below);
	return parts;
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

// fill shows commands: pairs of what each does and the command.
const fill = (within, pairs) => keep(within, pairs, pair => pair[0], ([purpose]) => {
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
