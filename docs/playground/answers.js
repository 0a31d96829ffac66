/** Shows the answers of the component: for each part, one sentence, and the details below it. */

import { badge, block, make, prettyJson, steps } from './elements.js';

const VERDICTS = { allow: ['allowed', 'good'], ask: ['a person must approve it', 'warn'], deny: ['denied', 'bad'] };
const NOTES = { repair: 'warn', coercion: 'plain', problem: 'bad' };

/** For each part, a function that returns the parts of the sentence, and the elements below it. */
export const answers = {
  names({ problem, message, tool, trace, listed }) {
    if (problem) return [[badge(problem, 'bad'), ' No tool has this name.'], block('What the model is told', make('p', 'said', message))];
    const row = ({ style, name }) => make('tr', '', make('th', '', style), make('td', 'mono', name));
    const rows = listed.map(row);
    for (const { firstChild } of rows) firstChild.scope = 'row';
    return [
      [badge('found', 'good'), ' Tool ', make('strong', 'mono', tool.tool), ' of server ', make('strong', 'mono', tool.server)],
      [...block('Why', steps(trace)), ...block('How it is listed', make('table', '', make('tbody', '', ...rows)))],
    ];
  },

  arguments({ arguments: read, stage, notes }) {
    const hasProblem = notes.some(({ kind }) => kind === 'problem');
    const items = notes.map(({ kind, text }) => make('li', '', badge(kind, NOTES[kind]), ' ', text));
    const [tone, verdict] = hasProblem ? ['bad', 'They do not fit the schema.'] : ['good', 'The server would get these arguments.'];
    return [
      [badge(stage, tone), ` Read as ${stage}. ${verdict}`],
      [...block('Arguments', json(read)), ...(items.length > 0 ? block('Notes', make('ul', 'notes', ...items)) : [])],
    ];
  },

  masks({ masked, found }) {
    const all = found.reduce((sum, { count }) => sum + count, 0);
    const items = found.map(({ mark, count, masks }) => {
      const by = masks.length > 0 ? `, found by ${masks.join(', ')}` : '';
      return make('li', '', make('mark', '', mark), ` ${count === 1 ? 'once' : `${count} times`}${by}`);
    });
    return [
      all > 0 ? [badge('masked', 'good'), ` ${all === 1 ? 'One value is' : `${all} values are`} replaced.`]
        : [badge('unchanged', 'plain'), ' No mask found anything.'],
      [
        ...block('Masked text', marked(masked, found.map(({ mark }) => mark))),
        ...(items.length > 0 ? block('By which masks', make('ul', 'notes', ...items)) : []),
      ],
    ];
  },

  rules({ verdict, tool, arguments: sent, reason, labels, trace, isListed, notes }) {
    const [words, tone] = VERDICTS[verdict] ?? ['refused before rules decide', 'bad'];
    const named = tool ? [' ', make('strong', 'mono', `${tool.server}.${tool.tool}`), `: ${words}.`] : [` The call is ${words}.`];
    const listed = isListed ? 'It is in the list of tools that this caller gets.' : 'It is not in the list of tools that this caller gets.';
    return [
      [badge(verdict, tone), ...named],
      [
        ...(reason ? block(verdict === 'ask' ? 'Reason' : 'What the model is told', make('p', 'said', reason)) : []),
        ...block('Why', steps(trace)),
        ...(sent === undefined ? [] : block('Arguments as they are sent', json(sent))),
        ...(labels.length > 0 ? block('Labels that the agent gets', make('p', 'mono', labels.join(', '))) : []),
        ...(tool ? [make('p', 'soft', listed)] : []),
        ...(notes.length > 0 ? block('Probable mistakes in the rules', make('ul', 'notes', ...notes.map((note) => make('li', '', note)))) : []),
      ],
    ];
  },

  search({ hits }) {
    if (hits.length === 0) return [[badge('nothing', 'plain'), ' No tool fits this query.'], []];
    const best = hits[0].score;
    const items = hits.map(({ tool, score, why }) => {
      const bar = make('progress', '');
      Object.assign(bar, { max: best, value: score });
      bar.setAttribute('aria-hidden', 'true'); // the score is beside it
      const figure = make('span', 'soft number', `score ${score.toFixed(3)}`);
      return make('li', '', make('strong', 'mono', `${tool.server}.${tool.tool}`), ' ', figure, bar, make('span', 'soft', why));
    });
    const first = make('strong', 'mono', `${hits[0].tool.server}.${hits[0].tool.tool}`);
    return [
      [badge(`${hits.length} found`, 'good'), ' The best is ', first, '.'],
      block('Tools, the best first', make('ol', 'hits', ...items)),
    ];
  },
};

function json(text) {
  return code(prettyJson(text));
}

/** Makes a block of code that the keyboard can scroll. */
function code(...content) {
  const element = make('pre', '', ...content);
  element.tabIndex = 0;
  return element;
}

/** Makes a block of code in which the marks of masks stand out. */
function marked(text, marks) {
  const pieces = [];
  for (let at = 0; at < text.length; ) {
    const next = marks.map((mark) => [text.indexOf(mark, at), mark]).filter(([where]) => where >= 0);
    const [where, mark] = next.sort(([one], [other]) => one - other)[0] ?? [text.length, ''];
    if (where > at) pieces.push(text.slice(at, where));
    if (mark) pieces.push(make('mark', '', mark));
    at = where + mark.length;
  }
  return code(...pieces);
}
