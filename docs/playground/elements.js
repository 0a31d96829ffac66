/** Pieces of the page. Texts of people, tools and the component may be hostile: they become text, and never markup. */

// Control characters, direction overrides and invisible letters. The joiners U+200C and U+200D stay: scripts need them.
const HIDDEN = new RegExp('[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e' +
  '\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}]|\\p{Surrogate}', 'gu');

/** Makes characters visible that a reader would not see, or that would reorder the text around them. */
export function visible(text) {
  const hex = (character) => character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
  return String(text).replaceAll('\r\n', '\n').replace(HIDDEN, (character) => `⟨U+${hex(character)}⟩`);
}

/** Makes an element with a class, and with texts and elements in it. */
export function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.map((child) => (child instanceof Node ? child : visible(child))));
  return element;
}

export function badge(text, tone) {
  const element = make('span', 'badge', text);
  element.dataset.tone = tone;
  return element;
}

/** Makes a heading and what belongs to it; nothing without content. */
export function block(title, ...content) {
  return content.length > 0 ? [make('h4', '', title), ...content] : [];
}

export function steps(texts) {
  return make('ol', 'trace', ...texts.map((text) => make('li', '', text)));
}

/** Writes JSON in lines, without reading its numbers: no digit is lost. */
export function prettyJson(text) {
  let [depth, written] = [0, ''];
  const line = () => `\n${'  '.repeat(depth)}`;
  const tokens = text.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  tokens.forEach((token, at) => {
    const before = tokens[at - 1];
    if ('}]'.includes(token)) {
      depth--;
      if (!'{['.includes(before)) written += line();
    } else if (before !== undefined && '{[,'.includes(before)) written += line();
    written += token === ':' ? ': ' : token;
    if ('{['.includes(token)) depth++;
  });
  return written;
}
