/* Small charts of at most the last hour, drawn as SVG, with their figures in words for whoever cannot see them. */

const WIDTH = 360, HEIGHT = 64;

function makeSvg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/**
 * Makes a chart of lines that share a scale; `lines` have a name and a tone, and `format` writes a value. The update
 * takes the values of each line, oldest first, when the slots begin and how long they are, and what to say about all
 * of them: in large letters, and below. An unknown value is null.
 */
function makeChart(title, lines, format) {
  const paths = lines.map(({ tone }) => makeSvg("path", { class: "line-of-chart", "data-tone": tone }));
  const area = makeSvg("path", { class: "area-of-chart", "data-tone": lines[0].tone });
  const cursor = makeSvg("line", { class: "cursor", y1: 0, y2: HEIGHT });
  const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
  const svg = makeSvg("svg", { viewBox, preserveAspectRatio: "none", role: "img" }, area, ...paths, cursor);
  const now = make("p", { className: "now number" }), note = make("span", { className: "soft" });
  const most = make("span", { className: "number soft most" });
  const oldest = make("span");
  const scale = make("p", { className: "scale soft number" }, oldest, most, make("span", { text: "now" }));
  const heading = make("h3", { text: title });
  const node = make("figure", { className: "chart" }, heading, now, svg, scale, note);
  let shown = null, drawn = "", pointed = null;

  const tell = place => {
    const { values, begins, slot, headline } = shown;
    const valueOf = ({ name }, line) => `${lines.length > 1 ? `${name} ` : ""}${format(values[line][place])}`;
    setText(now, place === null ? headline : `${clockOf(begins + place * slot)}  ${lines.map(valueOf).join(", ")}`);
    cursor.setAttribute("visibility", place === null ? "hidden" : "visible");
    if (place !== null) for (const end of ["x1", "x2"]) cursor.setAttribute(end, xOf(place, values[0].length));
  };
  svg.onpointermove = event => {
    if (!shown) return;
    const { left, width } = svg.getBoundingClientRect(), { length } = shown.values[0];
    pointed = Math.max(0, Math.min(length - 1, Math.round((event.clientX - left) / width * (length - 1))));
    tell(pointed);
  };
  svg.onpointerleave = () => {
    pointed = null;
    if (shown) tell(null);
  };

  const update = (values, begins, slot, headline, words = "") => {
    const key = JSON.stringify([values, begins, headline, words]);
    if (key === drawn) return;
    drawn = key;
    shown = { values, begins, slot, headline };
    const top = Math.max(...values.flat().map(value => value ?? 0));
    paths.forEach((path, line) => path.setAttribute("d", lineOf(values[line], top)));
    area.setAttribute("d", areaOf(values[0], top));
    const minutes = Math.ceil(values[0].length * slot / 60_000), isHour = minutes >= 59;
    setText(oldest, isHour ? "1 h ago" : `${minutes} min ago`);
    setText(most, top > 0 ? `most ${format(top)}` : "");
    setText(note, words);
    tell(pointed < values[0].length ? pointed : null);
    const peak = values[0].indexOf(Math.max(...values[0].map(value => value ?? 0)));
    const at = top > 0 && values[0][peak] === top ? ` at ${clockOf(begins + peak * slot)}` : "";
    const told = [headline, words, top > 0 ? `most ${format(top)}${at}` : ""].filter(Boolean);
    svg.setAttribute("aria-label", `${title} in the last ${isHour ? "hour" : `${minutes} minutes`}: ${told.join(", ")}`);
  };
  return { node, update };
}

/** Makes a line of the calls of a server, in which failures stand out. */
function makeSparkline() {
  const calls = makeSvg("path", { class: "area-of-chart" }), line = makeSvg("path", { class: "line-of-chart" });
  const failures = makeSvg("path", { class: "line-of-chart", "data-tone": "bad" });
  const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
  const attributes = { viewBox, preserveAspectRatio: "none", role: "img", class: "sparkline" };
  const node = makeSvg("svg", attributes, calls, line, failures);
  let drawn = "";
  return { node, update(values, failed, label) {
    const key = JSON.stringify([values, failed, label]);
    if (key === drawn) return;
    drawn = key;
    const top = Math.max(...values);
    calls.setAttribute("d", areaOf(values, top));
    line.setAttribute("d", lineOf(values, top));
    failures.setAttribute("d", lineOf(failed.map(count => count || null), top));
    node.setAttribute("aria-label", label);
  } };
}

function xOf(place, count) {
  return Math.round(place / Math.max(1, count - 1) * WIDTH * 10) / 10;
}

function yOf(value, top) {
  return Math.round((HEIGHT - 1 - value / (top || 1) * (HEIGHT - 3)) * 10) / 10;
}

/** Draws a line with gaps where values are unknown; a value between two gaps is a dot. */
function lineOf(values, top) {
  let path = "", isDrawing = false;
  values.forEach((value, place) => {
    if (value !== null) {
      const point = `${xOf(place, values.length)} ${yOf(value, top)}`;
      path += isDrawing ? `L${point}` : `M${point}h.5`;
    }
    isDrawing = value !== null;
  });
  return path;
}

function areaOf(values, top) {
  const points = values.map((value, place) => `L${xOf(place, values.length)} ${yOf(value ?? 0, top)}`);
  return `M0 ${HEIGHT}${points.join("")}L${WIDTH} ${HEIGHT}Z`;
}
