'use strict';
// One node

function showNode(states) {
  const name = model.chosen;
  byId('h-node').textContent = name || 'No node chosen';
  const box = byId('node');
  if (!name) return;
  const node = model.topology.nodes.find((one) => one.name === name);
  if (!node) return;
  // What is being typed stays.
  const active = document.activeElement;
  if (active && box.contains(active) && /^(INPUT|SELECT)$/.test(active.tagName) && box.dataset.of === name) {
    return;
  }
  box.dataset.of = name;
  const state = states.get(name) || {};
  const parts = [make('p', { class: 'code' }, state.large ? (state.case || '') + ' (' + state.large + ' bytes)'
    : stateText(state.state)),
  make('p', null, [node.kind + (node.hosts ? ' ' + node.hosts : ''), node.phase,
    state.version === undefined ? null : 'version ' + state.version,
    state.cause ? 'by ' + state.cause : null, state.time ? 'since ' + clock(state.time) : null,
    node.pid ? 'pid ' + node.pid : null, node.within ? 'within ' + node.within : null]
    .filter((part) => part).join(' · '))];
  if (node.reason) parts.push(make('p', { class: 'note bad' }, node.reason));
  for (const doubt of state.doubts || []) {
    parts.push(make('p', { class: 'note bad' }, doubt.participant + ' is in doubt of ' +
      doubt.composite + ': ' + doubt.event + ' (' + doubt.transaction + ')'));
  }
  if (model.machine) parts.push(make('h3', null, 'States'), stateChart(name, state));
  parts.push(...eventParts(node));
  parts.push(...letterParts(node));
  put(box, ...parts);
}

// States in a column; to their right the transitions that were seen, each with a lane and a line of its own,
// the one just taken in bold.
function stateChart(name, state) {
  const names = model.machine.states.map((one) => one.name).slice(0, 24);
  const [wide, high, gap, line] = [130, 26, 44, 18];
  const edges = seenTransitions(name).filter((edge) => names.includes(edge.from) && names.includes(edge.to))
    .slice(0, 40);
  const lanes = wide + 24 + edges.length * 9;
  const middle = (one) => 20 + names.indexOf(one) * gap;
  const now = caseName(state.state) || state.case;
  const svg = draw('svg', { width: lanes + 360, role: 'img',
    height: Math.max(names.length * gap, edges.length * line) + 16,
    'aria-label': 'States: ' + names.join(', ') + '; now ' + now });
  edges.forEach((edge, index) => {
    const x = wide + 20 + index * 9;
    // Beside each other where they leave and reach a state.
    const [from, to] = [middle(edge.from) - 5 + index % 3 * 2, middle(edge.to) + 5 + index % 3 * 2];
    const y = 16 + index * line;
    svg.append(draw('path', { class: 'wire' + (edge.isLast ? ' taken' : ''), 'marker-end': 'url(#tip)',
      d: `M${wide + 2} ${from}H${x}V${to}H${wide + 4}` }),
    draw('path', { class: 'wire thin', d: `M${x} ${Math.min(Math.max(y, Math.min(from, to)), Math.max(from, to))}` +
      `L${x} ${y}H${lanes}` }),
    draw('text', { x: lanes + 6, y: y + 4, class: 'small' }, (edge.isLast ? '▶ ' : '') +
      short([...edge.events].join(', '), 30) + ': ' + edge.from + ' → ' + edge.to));
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

const verdicts = { enabled: '✓ takes it', withheld: '✗ withholds it', dependsOnValue: '? by its values' };

function eventParts(node) {
  if (!model.enabled) return [];
  if (model.enabled.problem) return [make('p', { class: 'note' }, model.enabled.problem)];
  const rows = model.enabled.events.map((event) => make('tr', null,
    make('td', { class: 'code' }, event.event + (event.fields.length ? '(' + event.fields.map((field) =>
      field.name + ': ' + field.type).join(', ') + ')' : '')),
    make('td', null, verdicts[event.verdict]),
    make('td', null, event.because.map((one) => (one.participant === node.name ? '' : one.participant +
      ' in ' + short(one.state, 40) + ': ') + one.reason).join('; ') || (event.composite ?
      'together: ' + event.participants.join(', ') : ''))));
  if (!rows.length) return [];
  return [make('h3', null, 'Events now'), make('div', { class: 'scroll', tabindex: 0, role: 'group',
    'aria-label': 'Events', 'data-key': 'events' }, make('table', null, make('thead', null, make('tr', null,
    make('th', { scope: 'col' }, 'Event'), make('th', { scope: 'col' }, 'Now'),
    make('th', { scope: 'col' }, 'Because'))), make('tbody', null, ...rows))),
  model.readOnly ? null : formOf(node), make('p', { id: 'said', role: 'status' }, model.message)]
    .filter((part) => part);
}

// What was filled in stays while the events are the same.
function formOf(node) {
  const key = node.name + JSON.stringify(model.enabled.events.map((event) =>
    [event.event, event.composite, event.fields]));
  if (!model.form || model.form.key !== key) model.form = { key, element: sendForm(node) };
  return model.form.element;
}

// A form from the types of the event's fields.
function sendForm(node) {
  const fields = make('span');
  const choice = make('select', { 'data-key': 'choice', onchange: () => putFields() },
    ...model.enabled.events.map((event, index) => make('option', { value: index }, event.event)));
  function putFields() {
    fields.replaceChildren(...model.enabled.events[choice.value].fields.map((field) =>
      make('label', null, field.name + ' (' + field.type + ') ', make('input', { name: field.name,
        'data-type': field.type, autocomplete: 'off', size: 12 }))));
  }
  const chosen = model.choice && model.enabled.events.findIndex((event) => event.event === model.choice);
  if (chosen > 0) choice.value = chosen;
  putFields();
  return make('form', { onsubmit: (submitted) => {
    submitted.preventDefault();
    const event = model.enabled.events[choice.value];
    model.choice = event.event;
    const values = {};
    for (const input of fields.querySelectorAll('input')) {
      values[input.name] = valueOf(input.value, input.dataset.type);
    }
    const target = event.composite || (event.participants.length === 1 ? event.participants[0] : node.name);
    say(ask('/api/send', { node: target, event: event.fields.length ? { [event.event]: values } : event.event }),
      event.event);
  } }, make('label', null, 'Send ', choice), fields,
  make('button', { type: 'submit', 'data-key': 'send' }, 'Send'));
}

function valueOf(text, type) {
  if (/^String\b/.test(type)) return text;
  try { return JSON.parse(text); } catch { return text; }
}

async function say(promise, what) {
  try {
    const answer = await promise;
    model.message = what + ': ' + answer.outcome + (answer.reason ? ', ' + answer.reason : '') +
      (answer.state === undefined ? '' : ', ' + short(answer.state, 80));
  } catch (problem) { model.message = what + ': ' + problem.message; }
  const said = byId('said');
  if (said) said.textContent = model.message;
  lookAtChosen();
}

function letterParts(node) {
  if (!model.letters || !model.letters.length) return [];
  const act = (letter, drops) => say(ask('/api/letter', { node: node.name, id: letter.id, drops }),
    (drops ? 'drop ' : 'resend ') + letter.id);
  return [make('h3', null, 'Dead letters'), make('div', { class: 'scroll', tabindex: 0, role: 'group',
    'aria-label': 'Dead letters', 'data-key': 'letters' }, make('table', null, make('tbody', null,
    ...model.letters.map((letter) => make('tr', null, make('td', { class: 'number' }, letter.id),
      make('td', { class: 'code' }, short(letter.event, 60)), make('td', null, letter.pipe),
      make('td', null, letter.reason), model.readOnly ? null : make('td', null,
        make('button', { type: 'button', 'data-key': 'r' + letter.id, onclick: () => act(letter, false) },
          'Resend'), ' ',
        make('button', { type: 'button', 'data-key': 'd' + letter.id, onclick: () => act(letter, true) },
          'Drop')))))))];
}
