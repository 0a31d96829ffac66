/* The pieces that all views are made of: nodes, rows that stay while they change, texts that may be long. */

const byId = id => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") node.textContent = visible(value);
    else if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function makeButton(text, className = "") {
  return make("button", { type: "button", className, text });
}

/** Leaves the node alone if nothing changed, so that a selection in it survives. */
function setText(node, text) {
  const shown = visible(text);
  if (node.textContent !== shown) node.textContent = shown;
}

function setBadge(node, text, tone) {
  setText(node, text);
  node.dataset.tone = tone;
}

/** Keeps one row for each key, so that focus, open rows and typed text survive a refresh. */
function keyedList(container, keyOf, makeRow) {
  const rows = new Map();
  return (items, stays = () => false) => {
    const wanted = new Map(items.map(item => [keyOf(item), item]));
    for (const [key, row] of rows) {
      if (wanted.has(key)) continue;
      row.node.remove();
      if (!stays(key)) rows.delete(key);
    }
    let next = container.firstElementChild;
    for (const [key, item] of wanted) {
      const row = rows.get(key) ?? makeRow(item);
      rows.set(key, row);
      row.update(item);
      if (row.node === next) next = next.nextElementSibling;
      else container.insertBefore(row.node, next);
    }
    return rows;
  };
}

/** Makes a row that opens: a line with named parts and their classes, and a body. */
function openingRow(kind, classes) {
  const parts = {};
  for (const [name, className] of Object.entries(classes)) parts[name] = make("span", { className });
  const body = make("div", { className: "body" });
  const head = make("summary", { className: "head" }, ...Object.values(parts));
  const details = make("details", {}, head, body);
  return { node: make("li", { className: kind }, details), details, head, parts, body };
}

/** Makes a list of terms, without empty ones. */
function factList() {
  const node = make("dl", { className: "facts" });
  const list = keyedList(node, ([term]) => term, ([term]) => {
    const value = make("dd", { className: "said" });
    return { node: make("div", {}, make("dt", { text: term }), value), update: ([, text]) => setText(value, text) };
  });
  return { node, update: facts => list(Object.entries(facts).filter(([, text]) => (text ?? "") !== "")) };
}

/** Makes a text that is cut if it is long, with a button to show all of it. */
function longText(className = "") {
  const text = make("pre", { className: `said ${className}` });
  const button = makeButton("", "plain");
  const node = make("div", {}, text, button);
  let full = "", whole = false;
  const draw = () => {
    const cut = full.split("\n", 12).join("\n").slice(0, 1200);
    setText(text, whole || cut === full ? full : `${cut}…`);
    setText(button, whole ? "Show less" : `Show all ${countOf(full.length)} characters`);
    button.setAttribute("aria-expanded", whole);
    button.hidden = cut === full;
    node.hidden = full === "";
  };
  button.onclick = () => { whole = !whole; draw(); };
  return { node, update(said) { full = textOf(said); draw(); } };
}

function longTextOf(text, className) {
  const long = longText(className);
  long.update(text);
  return long.node;
}

function disclosure(title, ...children) {
  return make("details", {}, make("summary", { text: title }), ...children);
}

function traceList(steps) {
  return make("ol", {}, ...steps.map(text => make("li", {}, make("div", { className: "said", text }))));
}

/** Shows a table; the region around it stays, with its focus and how far it is scrolled. */
function showTable(node, ...contents) {
  const region = textTable(...contents);
  if (node.firstElementChild) node.firstElementChild.replaceChildren(...region.children);
  else node.append(region);
}

/** Makes a table of texts, in which the first cell of each row is its header. */
function textTable(label, heads, rows) {
  const line = (texts, scope) => make("tr", {}, ...texts.map((text, at) => {
    const tag = scope === "col" || at === 0 ? "th" : "td";
    return make(tag, { ...(tag === "th" && { scope }), className: "said", text: brief(text, 500) });
  }));
  const table = make("table", { className: "texts" }, make("thead", {}, line(heads, "col")),
    make("tbody", {}, ...rows.map(texts => line(texts, "row"))));
  return make("div", { className: "wide", role: "region", tabIndex: 0, ariaLabel: label }, table);
}

/** Shows a message at the bottom of the page, and tells screen readers. */
function say(text) {
  setText(byId("notice"), text);
  clearTimeout(say.timer);
  say.timer = setTimeout(() => setText(byId("notice"), ""), 7000);
}

/** Reads a stored value, or stores a given one; a browser may refuse both. */
function stored(storage, key, value) {
  try {
    if (value !== undefined) window[storage].setItem(key, value);
    return window[storage].getItem(key);
  } catch {
    return null;
  }
}

function toneOf({ code, is_error: isError }) {
  if (code === "ok") return isError ? "warn" : "good";
  return code === "tool-error" ? "warn" : code === "cancelled" ? "calm" : "bad";
}
