'use strict';
// The panel of the selected node.

function choose(name) {
  model.chosen = name;
  model.machine = model.enabled = model.deadLetters = model.whole = null;
  model.message = '';
  show();
  fetchMachine();
  fetchSelected();
}

function fetchMachine() {
  const name = model.chosen;
  const node = model.latest && model.latest.nodes.find((one) => one.name === name);
  if (!node || node.kind !== 'machine') return;
  ask('/api/machine?node=' + encodeURIComponent(name)).then((machine) => {
    if (model.chosen === name) { model.machine = machine; show(); }
  }).catch(() => {});
}

let isFetching = false;
let mustFetchAgain = false;
async function fetchSelected() {
  const name = model.chosen;
  if (!name) return;
  if (isFetching) { mustFetchAgain = true; return; }
  isFetching = true;
  try {
    const enabled = await ask('/api/enabled?node=' + encodeURIComponent(name));
    if (model.chosen === name) model.enabled = enabled;
    const state = model.states.get(name);
    if (state && state.counts && state.counts.deadLetters) {
      const deadLetters = await ask('/api/dead-letters?node=' + encodeURIComponent(name));
      if (model.chosen === name) model.deadLetters = deadLetters;
    } else model.deadLetters = null;
  } catch (error) {
    // Keep the events, so that the form keeps its inputs.
    if (model.chosen === name) model.enabled = { events: [], ...model.enabled, error: error.message };
  }
  show();
  // Fetch at most twice a second.
  setTimeout(() => {
    isFetching = false;
    if (mustFetchAgain) { mustFetchAgain = false; fetchSelected(); }
  }, 500);
}

// Each part is kept until its content changes, so that inputs survive.
function showNode(states) {
  const name = model.chosen;
  byId('h-node').textContent = name || 'No node selected';
  const node = model.topology.nodes.find((one) => one.name === name);
  const parts = node ? nodeParts(node, states.get(name) || {})
    : [part('none', name ? 'There is no such node at this time.' : 'Select a node to see its states and events.')];
  putRows(byId('node'), parts.map((one) => ({ ...one, key: name + ' ' + one.key })));
  const said = byId('said');
  if (said && said.textContent !== model.message) said.textContent = model.message;
}

const part = (key, text, style) => ({ key, signature: text + style, build: () => make('p', { class: style }, text) });

function nodeParts(node, state) {
  const facts = [node.kind + (node.hosts ? ' ' + node.hosts : ''), node.phase,
    state.version === undefined ? null : 'version ' + state.version,
    state.cause ? 'by ' + state.cause : null, state.time ? 'since ' + clock(state.time) : null,
    node.pid ? 'pid ' + node.pid : null, node.within ? 'within ' + node.within : null];
  const parts = [part('state', stateOf(state, LARGE), 'code'), ...wholeParts(node.name, state),
    part('facts', facts.filter((fact) => fact).join(' · '))];
  if (node.reason) parts.push(part('reason', node.reason, 'note bad'));
  if (isBlocked(node)) {
    parts.push(part('blocked', 'Blocked: the node accepts no input while a pipe is full: ' +
      shownNodeState(node.name).counts.blocked.join(', '), 'note bad'));
  }
  for (const doubt of state.doubts || []) {
    parts.push(part(doubt.transaction + doubt.participant, doubt.participant + ' is in doubt about ' +
      doubt.composite + ': ' + doubt.event + ' (' + doubt.transaction + ')', 'note bad'));
  }
  if (model.machine) parts.push(chartPart(node.name, state));
  if (model.at === null) return parts.concat(eventParts(node), letterParts(node));
  return parts.concat(part('then', 'Events and dead letters are shown only for the present.', 'note'));
}

// Shows a snapshot of a large state, one part at a time.
const PART = 16384;

function wholeParts(name, state) {
  const whole = model.whole;
  if (model.at !== null || (!whole && !state.large)) return [];
  if (!whole) {
    return [{ key: 'whole', signature: '', build: () => make('p', null, make('button', { type: 'button',
      'data-key': 'whole', onclick: () => fetchWholeState(name) }, 'Show the whole state')) }];
  }
  const count = Math.max(1, Math.ceil(whole.text.length / PART));
  const turn = (by, words) => make('button', { type: 'button', 'data-key': words, disabled: !whole.text ||
    whole.part + by < 0 || whole.part + by >= count, onclick: () => { whole.part += by; show(); } }, words);
  const signature = whole.words + whole.part + whole.text.length;
  return [{ key: 'whole', signature, build: () =>
    make('p', null, whole.words + (count > 1 ? ', part ' + (whole.part + 1) + ' of ' + count : '') + ' ',
      turn(-1, 'Earlier part'), ' ', turn(1, 'Later part'), ' ', make('button', { type: 'button', 'data-key': 'whole',
        onclick: () => { model.whole = null; show(); } }, 'Close')) },
  { key: 'text', signature, build: () =>
    make('pre', { class: 'scroll code', tabindex: 0, role: 'group', 'aria-label': 'State', 'data-key': 'text' },
      whole.text.slice(whole.part * PART, (whole.part + 1) * PART)) }];
}

async function fetchWholeState(name) {
  model.whole = { words: 'Loading…', text: '', part: 0 };
  show();
  let found;
  try {
    const whole = await ask('/api/state?node=' + encodeURIComponent(name));
    found = { words: 'Version ' + whole.version, text: JSON.stringify(whole.state, null, 1), part: 0 };
  } catch (error) { found = { words: error.message, text: '', part: 0 }; }
  // The user may have selected another node, or closed the state.
  if (model.chosen === name && model.whole) { model.whole = found; show(); }
}

// Draws the states in a column, and the observed transitions to their right, each with its own lane and text line. The
// last transition is bold.
function chartPart(name, state) {
  const names = model.machine.states.map((one) => one.name).slice(0, 24);
  const edges = seenTransitions(name).filter((edge) => names.includes(edge.from) && names.includes(edge.to))
    .slice(0, 40).map((edge) => ({ ...edge, events: short([...edge.events].join(', '), 30) }));
  const now = caseName(state.state) || state.case;
  return { key: 'chart', signature: JSON.stringify([names, edges, now]), build: () =>
    make('div', null, make('h3', null, 'States'), stateChart(names, edges, now)) };
}

function stateChart(names, edges, now) {
  const [wide, high, gap, line] = [130, 26, 44, 18];
  const lanes = wide + 24 + edges.length * 9;
  const middle = (one) => 20 + names.indexOf(one) * gap;
  const longest = Math.max(0, ...edges.map((edge) => (edge.events + edge.from + edge.to).length));
  const svg = draw('svg', { width: lanes + 56 + longest * 6.4, role: 'img',
    height: Math.max(names.length * gap, edges.length * line) + 16,
    'aria-label': 'States: ' + names.join(', ') + '; now ' + now });
  edges.forEach((edge, index) => {
    const x = wide + 20 + index * 9;
    // Offset the lines where they leave and enter a state.
    const [from, to] = [middle(edge.from) - 5 + index % 3 * 2, middle(edge.to) + 5 + index % 3 * 2];
    const y = 16 + index * line;
    svg.append(draw('path', { class: 'wire' + (edge.isLast ? ' taken' : ''), 'marker-end': 'url(#tip)',
      d: `M${wide + 2} ${from}H${x}V${to}H${wide + 4}` }),
    draw('path', { class: 'wire thin', d: `M${x} ${Math.min(Math.max(y, Math.min(from, to)), Math.max(from, to))}` +
      `L${x} ${y}H${lanes}` }),
    draw('text', { x: lanes + 6, y: y + 4, class: 'small' }, (edge.isLast ? '▶ ' : '') +
      edge.events + ': ' + edge.from + ' → ' + edge.to));
  });
  for (const one of names) {
    svg.append(draw('rect', { class: one === now ? 'box now' : 'box', x: 3, y: middle(one) - high / 2,
      width: wide, height: high, rx: 12 }),
    draw('text', { x: 3 + wide / 2, y: middle(one) + 4, 'text-anchor': 'middle' },
      (one === now ? '● ' : '') + short(one, 16)));
  }
  return make('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'State chart',
    'data-key': 'states' }, svg);
}

function seenTransitions(name) {
  const edges = new Map();
  let last = null;
  for (const step of visibleSteps()) {
    if (step.node !== name || step.from === undefined) continue;
    const [from, to] = [caseName(step.from), caseName(step.state)];
    const key = from + '→' + to;
    last = edges.get(key) || { from, to, events: new Set(), isLast: false };
    last.events.add(caseName(step.event) || step.cause);
    edges.set(key, last);
  }
  if (last) last.isLast = true;
  return [...edges.values()].sort((a, b) => (a.from + ' ' + a.to < b.from + ' ' + b.to ? -1 : 1));
}

const verdicts = { enabled: '✓ takes it', blocked: '✗ blocks it', dependsOnValue: '? by its values',
  undetermined: '? known only when it runs' };

function eventParts(node) {
  if (!model.enabled) return [];
  const { error, events } = model.enabled;
  const parts = error ? [part('error', error, 'note')] : events.length ? [eventTable(node)] : [];
  // Keep the form while the node is down, since removing it would lose the focus.
  if (events.length && !model.readOnly) parts.push(formPart(node));
  return parts.concat(resultPart);
}
const resultPart = { key: 'said', signature: '', build: () => make('p', { id: 'said', role: 'status' }) };

function eventTable(node) {
  const rows = model.enabled.events.map((event) => [event.event + (event.fields.length ? '(' +
    event.fields.map((field) => field.name + ': ' + field.type).join(', ') + ')' : ''), verdicts[event.verdict],
  event.because.map((one) => (one.participant === node.name ? '' : one.participant + ' in ' +
    short(one.state, 40) + ': ') + one.reason).join('; ') ||
    (event.composite ? 'together: ' + event.participants.join(', ') : '')]);
  return { key: 'events', signature: JSON.stringify(rows), build: () => make('div', null,
    make('h3', null, 'Events now'),
    make('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Events', 'data-key': 'events' },
      make('table', null, make('thead', null, make('tr', null, ...['Event', 'Now', 'Because'].map((title) =>
        make('th', { scope: 'col' }, title)))), make('tbody', null, ...rows.map(([event, verdict, why]) =>
        make('tr', null, make('td', { class: 'code' }, event), make('td', null, verdict),
          make('td', null, why))))))) };
}
