/* How an open server was in the last hour, and what it wrote to its standard error, for admins. */

const HOUR = 36e5;
const LOG_LINES = 200;
const openLogs = new Set(); // those of open rows

async function loadLogs() {
  await Promise.all([...openLogs].map(log => log.load()));
}

/** Makes the part of a server's row that shows its log; it is loaded while the row is open. */
function makeServerLog(id) {
  const timeline = makeSvg("svg", { viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", role: "img", class: "timeline" });
  const ends = ["1 h ago", "now"].map(text => make("span", { text }));
  const changes = make("ol"), lines = make("ol"), gap = make("p", { className: "soft" });
  const scroller = make("div", { className: "log", role: "region", tabIndex: 0, ariaLabel: `Log of ${brief(id, 80)}` }, lines);
  const past = make("div", {}, timeline, make("p", { className: "scale soft" }, ...ends), disclosure("Changes of state", changes));
  const written = make("div", {}, make("h3", { text: "Log" }), gap, scroller);
  const node = make("div", { className: "for-admins", hidden: true }, make("h3", { text: "The last hour" }), past, written);
  const listLines = keyedList(lines, ({ number, at }) => `${number} ${at}`, makeLogLine);
  let kept = [], last = 0;

  const load = async () => {
    if (!node.isConnected) return follow(false); // the server was removed
    if (!isAdmin()) return; // another token may read it
    const log = await requestJson(`servers/${encodeURIComponent(id)}/log?after=${last}`);
    // A gateway that was started anew counts from 1.
    kept = (log.last < last || log.lost ? log.lines : [...kept, ...log.lines]).slice(-LOG_LINES);
    last = log.last;
    node.hidden = false;
    drawTimeline(timeline, log.states);
    past.hidden = !log.states.length;
    changes.replaceChildren(...log.states.toReversed().map(({ at, state }) =>
      make("li", { text: `${timeOf(at)} ${state}${STATES[state] ? `: ${STATES[state][1]}` : ""}` })));
    const isAtEnd = scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 4;
    listLines(kept);
    if (isAtEnd) scroller.scrollTop = scroller.scrollHeight;
    written.hidden = !kept.length;
    setText(gap, last > kept.length ? `The last ${kept.length} of ${countOf(last)} lines` : "");
    gap.hidden = last <= kept.length;
  };
  const log = { load };
  const follow = isOpen => {
    if (!isOpen) return openLogs.delete(log);
    openLogs.add(log);
    if (isAdmin()) refresh({ logs: true });
  };
  return { node, follow };
}

function isAdmin() {
  return document.documentElement.dataset.role === "admin";
}

function makeLogLine({ at, source, text }) {
  const words = make("span", { className: source === "toolgate" ? "soft" : "", text });
  const time = make("span", { className: "soft number", text: timeOf(at) });
  return { node: make("li", {}, time, " ", words), update() {} }; // a line does not change
}

/** Draws the states of the last hour as a band, and says them. */
function drawTimeline(svg, states) {
  const now = Date.now(), begin = now - HOUR;
  const placeOf = time => +((Math.max(begin, time) - begin) / HOUR * WIDTH).toFixed(1);
  const spans = states.map(({ at, state }, place) =>
    ({ state, from: Date.parse(at), to: Date.parse(states[place + 1]?.at ?? new Date(now).toISOString()) }));
  const seen = spans.filter(({ to }) => to > begin);
  svg.replaceChildren(...seen.map(({ state, from, to }) => {
    // The shortest trouble can still be seen.
    const x = placeOf(from), width = Math.max(placeOf(to) - x, 1.5);
    return makeSvg("rect", { x: Math.min(x, WIDTH - width), width, height: 10, "data-tone": STATES[state]?.[0] ?? "calm" });
  }));
  const restarts = seen.filter(({ state }) => state === "restarting").length;
  const counted = restarts ? `, ${restarts === 1 ? "one restart" : `${restarts} restarts`}` : "";
  const latest = seen.at(-1);
  svg.setAttribute("aria-label", latest ? `In the last hour: ${latest.state} since ${timeOf(latest.from)}${counted}` : "");
}
