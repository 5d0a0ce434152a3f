'use strict';
// The panel of the selected node.

function choose(name) {
  model.chosen = name;
  model.chart = model.enabled = model.deadLetters = model.whole = null;
  model.message = '';
  fetchChart();
  fetchSelected();
  show();
}

let isFetching = false;
let mustFetchAgain = false;
async function fetchSelected() {
  const name = model.chosen;
  if (!name || recordedRun()) return;
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
    // Keeps the events, so that the form keeps what the user has typed.
    if (model.chosen === name) model.enabled = { events: [], ...model.enabled, error: error.message };
  }
  showUpdate();
  // The events are fetched at most twice a second.
  setTimeout(() => {
    isFetching = false;
    if (mustFetchAgain) { mustFetchAgain = false; fetchSelected(); }
  }, 500);
}

// Each part keeps its elements until its contents change, so that what the user has typed is not
// lost.
function showNode(states) {
  const name = model.chosen;
  byId('h-node').textContent = name || 'No node selected';
  const node = model.topology.nodes.find((one) => one.name === name);
  const parts = node ? nodeParts(node, states.get(name) || {}, states)
    : [part('none', name ? 'There is no such node at this time.' : 'Select a node in the graph or in the table: its state chart and its events appear here.', 'empty')];
  putRows(byId('node'), parts.map((one) => ({ ...one, key: name + ' ' + one.key })));
  const said = byId('said');
  if (said && said.textContent !== model.message) said.textContent = model.message;
}

const part = (key, text, style) => ({ key, signature: text + style, build: () => make('p', { class: style }, text) });

function nodeParts(node, state, states) {
  const facts = [node.kind + (node.hosts ? ' ' + node.hosts : ''), node.phase,
    state.version === undefined ? null : 'version ' + state.version,
    state.cause ? 'by ' + state.cause : null, state.time ? 'since ' + clock(state.time) : null,
    node.pid ? 'pid ' + node.pid : null, node.within ? 'within ' + node.within : null];
  const parts = [statePart(node, state), ...wholeParts(node.name, state),
    part('facts', facts.filter((fact) => fact).join(' · '), 'hint'), controlPart(node)];
  if (node.reason) parts.push(part('reason', node.reason, 'note bad'));
  if (isBlocked(node)) {
    parts.push(part('blocked', 'Blocked: the node accepts no input while a pipe is full: ' +
      shownNodeState(node.name).counts.blocked.join(', '), 'note bad'));
  }
  for (const doubt of state.doubts || []) {
    parts.push(part(doubt.transaction + doubt.participant, doubt.participant + ' is in doubt about ' +
      doubt.composite + ': ' + doubt.event + ' (' + doubt.transaction + ')', 'note bad'));
  }
  if (state.state === undefined && !state.large) parts.push(part('unknown', 'The state at this instant is unknown.', 'note'));
  if (model.at !== null && !recordedRun()) parts.push(part('then', 'Enabled events and dead letters are unknown for the past.', 'note'));
  parts.push(...componentParts(node, states));
  if (model.at === null && !recordedRun()) parts.push(...eventParts(node), ...letterParts(node));
  return parts.concat(chartParts(node.name, state));
}

// Shows a large state, part by part. This display is not updated when the state changes.
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
  // While the state was fetched, the user may have selected another node, or closed the display.
  if (model.chosen === name && model.whole) { model.whole = found; show(); }
}

// The commands to the node's process.
function controlPart(node) {
  const canControl = model.at === null && !model.readOnly && model.latest.running && node.kind !== 'monitor';
  const isDown = ['stopped', 'failed', 'completed', 'idle', 'lost'].includes(node.phase);
  const actions = isDown ? ['start'] : ['restart', 'stop', 'kill'];
  return { key: 'control', signature: [canControl, ...actions].join(), build: () => make('p', { class: 'buttons' },
    ...(canControl ? actions.map((action) => make('button', { type: 'button', 'data-key': action, class: action === 'kill' ? 'danger' : null,
      onclick: () => control(node.name, action) }, CONTROLS[action].label)) : [])) };
}

// A large state is shown part by part, and everything else as a tree.
function statePart(node, state) {
  const text = state.large ? stateOf(state, LARGE) : stateText(state.state);
  const hue = hueOf(node.name, caseName(state.state) || state.case);
  return { key: 'state', signature: text + hue, build: () => make('div', { class: 'state' + (hue === null ? '' : ' hue' + hue) },
    state.large || state.state === undefined ? text : tree(state.state, node.name)) };
}
