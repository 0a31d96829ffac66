/** Connects the forms of the page to the component: what a form has is asked, and the address can carry it. */

import { answers } from './answers.js';
import { badge, block, make, visible } from './elements.js';
import { examples } from './examples.js';

const MILLIS = 5000; // for one question
const PAUSE_MILLIS = 200; // after the last key, before a question

const byId = (id) => document.getElementById(id);
const parts = new Map(Object.keys(examples).map((name) => [name, setUpPart(name)]));
let current = null;

setUpTheme();
const component = connect(({ groups, patterns, loaded }) => {
  setUpChoices('group', groups);
  setUpChoices('pattern', patterns);
  describe(loaded);
  byId('state').hidden = true;
  window.addEventListener('hashchange', show);
  show();
});

/** Shows the part that the address names, with the fields that it carries. */
function show() {
  const [, name, fields] = location.hash.match(/^#([a-z]*)\??([^]*)$/) ?? [];
  if (name === 'main') return; // the skip link stays in its part
  const isFirst = current === null;
  const part = parts.get(name) ?? current ?? parts.get('names');
  if (!fields && !part.isFilled) {
    // The address says what is shown, so that it can be passed on.
    history.replaceState(null, '', part.section.querySelector('.examples a').href);
    show();
    return;
  }
  if (fields) fill(part, new URLSearchParams(fields));
  if (part !== current) {
    current = part;
    for (const link of document.querySelectorAll('nav a')) {
      link.ariaCurrent = link.hash === `#${part.name}` ? 'page' : null;
    }
    for (const other of parts.values()) other.section.hidden = other !== part;
    document.title = `${part.title.textContent} – toolgate playground`;
    // Tells screen readers where they are; at the start, the page begins at its beginning.
    if (!isFirst) part.title.focus({ preventScroll: true });
    if (!isFirst) scrollTo(0, 0);
  }
  ask(part);
}

function setUpPart(name) {
  const section = byId(`part-${name}`);
  const form = section.querySelector('form');
  const status = make('p', 'status');
  status.setAttribute('role', 'status');
  const details = make('div', 'details');
  const link = make('button', '', 'Copy a link to this');
  link.type = 'button';
  const copied = make('span', 'soft');
  copied.setAttribute('role', 'status');
  section.querySelector('.answer').append(make('h3', '', 'Answer'), status, details, make('p', 'share', link, ' ', copied));
  const part = { name, section, form, status, details, copied, title: section.querySelector('h2'), isFilled: false };
  const links = examples[name].map(({ title, fields }) => {
    const anchor = make('a', '', title);
    anchor.href = `#${name}?${new URLSearchParams(fields)}`;
    return make('li', '', anchor);
  });
  section.querySelector('.examples').append(make('h3', '', 'Examples'), make('ul', '', ...links));
  link.onclick = () => share(part);
  form.onsubmit = (event) => event.preventDefault();
  form.oninput = () => {
    // The address must not name an example that the form has no longer.
    if (location.hash !== `#${name}`) history.replaceState(null, '', `#${name}`);
    markExample(part);
    copied.textContent = '';
    clearTimeout(part.timer);
    part.timer = setTimeout(() => ask(part), PAUSE_MILLIS);
  };
  return part;
}

/** Makes a check box of each mask. */
function setUpChoices(name, values) {
  const boxes = values.map((value) => {
    const box = make('input', '');
    Object.assign(box, { type: 'checkbox', name, value });
    return make('label', 'check', box, ` ${value}`);
  });
  document.querySelector(`[data-choices="${name}"]`).append(...boxes);
}

/** Puts fields of an address into the form; what is missing has its default. */
function fill(part, fields) {
  for (const control of part.form.elements) {
    if (!control.name) continue;
    const isBox = control.type === 'checkbox';
    if (isBox) control.checked = fields.getAll(control.name).includes(control.value);
    else control.value = fields.get(control.name) ?? control.defaultValue;
    // Whatever is set can be seen.
    if (isBox ? control.checked : control.value !== control.defaultValue) control.closest('details')?.setAttribute('open', '');
  }
  part.isFilled = true;
  part.copied.textContent = '';
  markExample(part);
}

/** Marks the example that the address names. */
function markExample(part) {
  for (const link of part.section.querySelectorAll('.examples a')) {
    link.ariaCurrent = link.hash === location.hash ? 'true' : null;
  }
}

async function share(part) {
  history.replaceState(null, '', `#${part.name}?${new URLSearchParams(new FormData(part.form))}`);
  try {
    await navigator.clipboard.writeText(location.href);
    part.copied.textContent = 'The link is copied.';
  } catch {
    part.copied.textContent = 'The address of this page is the link now.';
  }
}

/** Asks the component what the form says, and shows the answer. */
async function ask(part) {
  clearTimeout(part.timer);
  const asked = (part.asked = {});
  try {
    const answer = await component.ask(part.name, [...new FormData(part.form)]);
    if (asked === part.asked) answerWith(part, ...answers[part.name](answer));
  } catch (error) {
    if (asked === part.asked) answerWith(part, [badge('problem', 'bad'), ` ${visible(error.message)}`], []);
  }
}

function answerWith(part, sentence, details) {
  const next = make('p', '', ...sentence);
  // Screen readers hear only what has changed.
  if (part.status.textContent !== next.textContent) part.status.replaceChildren(...next.childNodes);
  part.details.replaceChildren(...details);
}

/** Starts the worker with the component; a question that takes too long ends it, and another one takes over. */
function connect(whenReady) {
  const policy = window.trustedTypes?.createPolicy('toolgate-worker', { createScriptURL: (url) => url });
  const url = new URL('worker.js', import.meta.url).href;
  const waiting = new Map();
  let [worker, lastId] = [null, 0];
  let isReady; // a promise: a worker that still loads the component hears nothing

  const start = () => {
    let ready;
    isReady = new Promise((resolve) => { ready = resolve; });
    worker = new Worker(policy?.createScriptURL(url) ?? url, { type: 'module' });
    worker.onmessage = ({ data }) => {
      if (data.failed !== undefined) return fail(data.failed);
      if (data.ready) {
        ready();
        whenReady?.(data.ready);
        whenReady = undefined;
        return undefined;
      }
      const question = waiting.get(data.id);
      waiting.delete(data.id);
      clearTimeout(question?.timer);
      if (data.problem !== undefined) question?.reject(new Error(data.problem));
      else question?.resolve(data.answer);
      return undefined;
    };
    worker.onerror = (event) => fail(event.message ?? 'the worker cannot be loaded');
  };
  const startAgain = () => {
    worker.terminate();
    start();
    for (const { timer, reject } of waiting.values()) {
      clearTimeout(timer);
      reject(new Error(`The component did not answer within ${MILLIS / 1000} s, and was started again.`));
    }
    waiting.clear();
  };
  start();

  return {
    async ask(part, fields) {
      await isReady;
      return new Promise((resolve, reject) => {
        const id = ++lastId;
        waiting.set(id, { resolve, reject, timer: setTimeout(startAgain, MILLIS) });
        worker.postMessage({ id, part, fields });
      });
    },
  };
}

function fail(message) {
  byId('state').hidden = false;
  byId('state-text').replaceChildren(badge('failed', 'bad'), ` The component cannot run here: ${visible(message)}`);
}

/** Says which component runs, and whether its modules are those that the package was made with. */
async function describe(loaded) {
  const facts = [];
  try {
    const response = await fetch(new URL('logic/component/component.json', import.meta.url));
    const { version, bytes, sha256, modules } = await response.json();
    facts.push(['Version', version], ['Component', `${bytes.toLocaleString('en')} bytes, SHA-256 `, make('code', '', sha256)]);
    facts.push(['Modules', ...verdictOn(loaded, modules)]);
    facts.push(['Compare', 'With ', make('code', '', 'toolgate component'), ', which prints the digest of the component in your program.']);
  } catch (error) {
    facts.push(['Component', badge('unknown', 'bad'), ` Its digests cannot be read: ${error.message}`]);
  }
  byId('component').replaceChildren(...facts.map(([term, ...text]) => {
    return make('div', '', make('dt', '', term), make('dd', '', ...text));
  }));
}

/** Compares the digests of what was loaded with those of the package. */
function verdictOn(loaded, modules) {
  const names = Object.keys(modules);
  if (names.some((name) => name in loaded && loaded[name] === undefined)) {
    return [badge('not compared', 'warn'), ' This browser computes digests only on pages with HTTPS, and on localhost.'];
  }
  const wrong = [...new Set([...names, ...Object.keys(loaded)])].filter((name) => loaded[name] !== modules[name]);
  if (wrong.length > 0) return [badge('differ', 'bad'), ` Not those of the package: ${wrong.join(', ')}.`];
  return [
    badge('verified', 'good'),
    ` Your browser loaded ${names.length} modules that the component was translated to, and computed their digests: they are those of the package.`,
  ];
}

/** Follows the system, unless the button says otherwise. */
function setUpTheme() {
  const themes = ['auto', 'light', 'dark'];
  const stored = (value) => {
    try {
      if (value) localStorage.setItem('toolgate-theme', value);
      return localStorage.getItem('toolgate-theme');
    } catch {
      return null; // a browser may refuse to store anything
    }
  };
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    byId('theme').textContent = `Theme: ${theme}`;
    byId('theme').onclick = () => {
      const next = themes[(themes.indexOf(theme) + 1) % themes.length];
      stored(next);
      apply(next);
    };
  };
  const chosen = stored();
  apply(themes.includes(chosen) ? chosen : 'auto');
}
