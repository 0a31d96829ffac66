/* The view of who may use which tool, by which rule. */

const VERDICTS = {
  allow: ["good", "may call"],
  ask: ["warn", "may call, if a person approves,"],
  depends: ["warn", "may call, if rules let it through,"],
  deny: ["bad", "may not call"],
};
const MOST_COLUMNS = 30, RIGHTS_AT_ONCE = 3000;
const accessForm = byId("access-filter"), matrix = byId("matrix");
let rightsShown = RIGHTS_AT_ONCE, rightsDrawn = "", shownRights = { rows: [], columns: [] };

function setUpAccess() {
  accessForm.verdict.append(option("", "Any right"), ...Object.keys(VERDICTS).map(verdict => option(verdict, verdict)));
  let timer = 0;
  accessForm.oninput = ({ target }) => {
    rightsShown = RIGHTS_AT_ONCE;
    if (target.name !== "labels") return showAccess();
    clearTimeout(timer);
    timer = setTimeout(() => { want("access", 0); refresh({}); }, 400);
  };
  accessForm.onsubmit = event => event.preventDefault();
  byId("rights-more").onclick = () => { rightsShown *= 4; showAccess(); };
  matchMedia(NARROW).onchange = showAccess;
  matrix.onkeydown = moveInMatrix;
  matrix.onclick = ({ target }) => { if (target.localName === "button") tellRight(target); };
}
const NARROW = "(max-width: 560px)";

async function loadAccess() {
  const labels = accessForm.labels.value.trim();
  try {
    return await requestJson(`access?${new URLSearchParams(labels && { labels })}`);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { principals: [], tools: [], groups: [], cells: [], problem: error.message };
  }
}

function showAccess() {
  if (!known.access || shownView !== "access") return;
  const { principals, tools, groups, cells, unlisted = [], problem: refusal } = known.access;
  offer(accessForm.server, accessForm.server.value, tools.map(({ server }) => server));
  offer(accessForm.principal, accessForm.principal.value, principals);
  // A phone has room for one.
  if (matchMedia(NARROW).matches && !accessForm.principal.value) accessForm.principal.value = principals[0] ?? "";
  const [one, server, pattern, verdict] = ["principal", "server", "tool", "verdict"].map(name => accessForm[name].value.trim());
  const columns = [...principals.keys()].filter(at => !one || principals[at] === one).slice(0, MOST_COLUMNS);
  const rightOf = ({ group }, column) => cells[groups[group][column]];
  const found = tools.filter(item => (!server || item.server === server)
    && (!pattern || [item.tool, `${item.server}.${item.tool}`, `${item.server}__${item.tool}`].some(name => isLike(pattern, name)))
    && (!verdict || columns.some(column => rightOf(item, column).verdict === verdict)));
  const rows = found.slice(0, Math.ceil(rightsShown / Math.max(1, columns.length)));
  const more = found.length - rows.length;
  setText(byId("access-said"), [
    refusal,
    `${countOf(found.length)} of ${countOf(tools.length)} tools`,
    columns.length < principals.length && !one ? `the first ${columns.length} of ${principals.length} principals` : "",
    unlisted.length ? `not known yet: the tools of ${brief(unlisted.join(", "))}` : "",
  ].filter(Boolean).join("; "));
  byId("rights-more").hidden = more <= 0;
  setText(byId("rights-more"), `Show more (${countOf(more)} hidden)`);
  const key = JSON.stringify([columns.map(at => principals[at]), rows.map(item => [item, columns.map(at => rightOf(item, at).rule)])]);
  if (key === rightsDrawn) return;
  rightsDrawn = key;
  shownRights = { rows, columns: columns.map(at => principals[at]), rightOf: (row, column) => rightOf(rows[row], columns[column]) };
  drawMatrix();
}

/** Draws the table anew; the focus stays in its row and column. */
function drawMatrix() {
  const { rows, columns, rightOf } = shownRights;
  const focused = placeOf(document.activeElement);
  const head = ["Tool", ...columns].map(text => make("th", { scope: "col", className: "said", text: brief(text, 100) }));
  const body = rows.map(({ server, tool }, row) => {
    const name = make("th", { scope: "row", className: "said mono", text: `${brief(server, 100)}.${brief(tool, 130)}` });
    const cells = columns.map((_, column) => {
      const { verdict } = rightOf(row, column);
      const button = make("button", { type: "button", className: "plain", text: verdict, tabIndex: -1 });
      button.dataset.tone = VERDICTS[verdict]?.[0];
      return make("td", {}, button);
    });
    return make("tr", {}, name, ...cells);
  });
  byId("access-told").replaceChildren(); // it was about the table before
  matrix.replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
  const stop = buttonAt(...focused ?? [0, 0]) ?? buttonAt(0, 0);
  if (stop) stop.tabIndex = 0;
  if (focused) stop?.focus();
}

function buttonAt(row, column) {
  return matrix.tBodies[0]?.rows[row]?.cells[column + 1]?.firstElementChild;
}

function placeOf(node) {
  const cell = node?.closest("#matrix td");
  return cell && [cell.parentElement.sectionRowIndex, cell.cellIndex - 1];
}

/** Moves with the arrow keys: the table is one stop for Tab. */
function moveInMatrix(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const place = placeOf(event.target);
  if (!step || !place) return;
  event.preventDefault();
  const next = buttonAt(place[0] + step[0], place[1] + step[1]);
  if (!next) return;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** Tells in words what a cell of the table means. */
function tellRight(button) {
  const [row, column] = placeOf(button);
  const { server, tool } = shownRights.rows[row], { verdict, rule, trace } = shownRights.rightOf(row, column);
  const who = brief(shownRights.columns[column], 100);
  const text = `${who} ${VERDICTS[verdict]?.[1]} ${brief(tool, 130)} of ${brief(server, 100)}: ${visible(rule)}`;
  byId("access-told").replaceChildren(make("p", { className: "said", text }), ...(trace.length ? [traceList(trace)] : []));
  matrix.querySelector("[aria-pressed]")?.removeAttribute("aria-pressed");
  button.ariaPressed = true;
}

/** Reports whether a text is like a pattern in which `*` stands for any text, in any case. */
function isLike(pattern, text) {
  const [start, ...parts] = pattern.toLowerCase().split("*"), written = text.toLowerCase();
  if (!parts.length) return written === start;
  const end = parts.pop();
  let at = written.startsWith(start) ? start.length : Infinity;
  for (const part of parts) {
    const place = written.indexOf(part, at);
    at = place < 0 ? Infinity : place + part.length;
  }
  return at + end.length <= written.length && written.endsWith(end);
}
