/* Texts, numbers and times as people read them. What servers say may be hostile, and is shown as it is. */

/** Converts anything to text, since a server may send an object where text belongs. */
function textOf(value) {
  return typeof value === "string" ? value : value === null || value === undefined ? "" : pretty(value);
}

/** Makes control characters, direction overrides and invisible letters visible. */
function visible(value) {
  if (typeof value === "string" && PLAIN.test(value)) return value;
  const hex = character => character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return textOf(value).replace(/\r\n/g, "\n").replace(HIDDEN, character => `⟨U+${hex(character)}⟩`);
}
const PLAIN = /^[ -~]*$/; // most texts, and quick to find out
// The joiners U+200C and U+200D stay: emoji and several scripts need them.
const HIDDEN = new RegExp("[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e" +
  "\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}]|\\p{Surrogate}", "gu");

/** Shortens a text to one line; the open row shows all of it. */
function brief(value, limit = 300) {
  return visible(textOf(value).slice(0, limit).replace(/\s+/g, " ").trim());
}

/** Parses JSON; numbers beyond 2^53 keep their digits if the browser supports that. */
function parseJson(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text); // a reviver takes several times as long
  const exact = (_, value, context) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
  try {
    return JSON.parse(text, exact);
  } catch {
    return JSON.parse(text); // too deeply nested for a reviver, or not JSON
  }
}

function pretty(value) {
  try {
    return JSON.stringify(value, null, 2);
  } catch {
    return "(nested too deeply to be shown)";
  }
}

function countOf(number) {
  return typeof number === "number" ? COUNTS.format(number) : textOf(number ?? "–");
}
// Formats are kept, since it takes long to make one.
const COUNTS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

function durationOf(ms) {
  if (ms === null || ms === undefined) return "–";
  const [unit, size] = UNITS.find(([, , until]) => ms < until);
  return `${ms / size < 10 ? countOf(ms / size) : Math.round(ms / size)} ${unit}`;
}
const UNITS = [["ms", 1, 1e3], ["s", 1e3, 9e4], ["min", 6e4, 54e5], ["h", 36e5, 1728e5], ["d", 864e5, Infinity]];

function ageOf(time) {
  const ms = Math.floor((Date.now() - Date.parse(time)) / 1000) * 1000;
  // The clocks of two machines differ a little, so an age is never negative.
  return ms < 1000 ? "now" : durationOf(ms);
}

function clockOf(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? "–" : CLOCK.format(date);
}

function timeOf(time) {
  const date = new Date(time);
  const clock = clockOf(time);
  return date.toDateString() === new Date().toDateString() ? clock : `${date.toLocaleDateString("en-CA")} ${clock}`;
}
