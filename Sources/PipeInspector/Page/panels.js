'use strict';
// Draws all panels, at most once per frame.

const ROWS = 300;   // The maximum number of rows in each table.

let isDue = false;
function show() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    showAll();
  });
}

function showAll() {
  if (!model.latest) return;
  model.topology = shownTopology();
  const states = shownStates();
  indexPipes();
  showHead();
  showNodes(states);
  showPipes();
  showGraph(states);
  showNode(states);
  showChart();
  showLogs();
}

// Replaces the contents. The element with the same key keeps the focus.
function put(parent, ...parts) {
  keepingFocus(parent, () => parent.replaceChildren(...parts));
}

// Replaces rows, given as [{ key, signature, build }], and keeps the elements whose key and signature are unchanged.
function putRows(parent, rows) {
  const known = drawn.get(parent) || new Map();
  const next = new Map();
  keepingScroll(parent, () => keepingFocus(parent, () => {
    for (const row of rows) {
      const former = known.get(row.key);
      const { key, signature } = row;
      next.set(key, former && former.signature === signature ? former : { signature, element: row.build() });
    }
    for (const [key, { element }] of known) {
      if (!next.has(key) || next.get(key).element !== element) element.remove();
    }
    let place = parent.firstChild;
    for (const { element } of next.values()) {
      if (element === place) place = place.nextSibling;
      else parent.insertBefore(element, place);
    }
  }));
  drawn.set(parent, next);
}
const drawn = new WeakMap();

function keyed(parent, key) {
  for (const one of parent.querySelectorAll('[data-key]')) if (one.getAttribute('data-key') === key) return one;
  return null;
}

function keepingScroll(parent, change) {
  const places = [...parent.querySelectorAll('.scroll[data-key]')].filter((one) => one.scrollLeft || one.scrollTop)
    .map((one) => [one.getAttribute('data-key'), one.scrollLeft, one.scrollTop]);
  change();
  for (const [key, left, top] of places) {
    const one = keyed(parent, key);
    if (one) { one.scrollLeft = left; one.scrollTop = top; }
  }
}

function keepingFocus(parent, change) {
  const active = document.activeElement;
  const key = active && parent.contains(active) ? active.getAttribute('data-key') : null;
  change();
  if (key === null || parent.contains(document.activeElement)) return;
  const one = keyed(parent, key);
  if (one) one.focus({ preventScroll: true });
}

const isAtFloor = (box) => box.scrollTop + box.clientHeight >= box.scrollHeight - 4;

function showHead() {
  const topology = model.topology;
  byId('title').textContent = topology.topology;
  byId('phase').textContent = topology.phase + (topology.reason ? ': ' + topology.reason : '') +
    (model.readOnly ? ' · read only' : '');
  byId('phase').className = topology.running ? 'up' : 'down';
  document.title = topology.topology + ' · PipeRuntime';
  byId('skipped').textContent = model.skipped ? model.skipped + ' steps not shown' : '';
  const isNow = model.at === null;
  const slider = byId('slider');
  const moment = isNow ? 'now' : clock(model.at);
  // Who looks back goes from step to step.
  if (isNow) slider.value = slider.max = model.steps.length;
  slider.setAttribute('aria-valuetext', moment);
  byId('moment').textContent = moment;
  byId('live').hidden = isNow;
  byId('freeze').setAttribute('aria-pressed', !isNow);
}

// Returns the text of a state, cut to `length` characters.
const stateOf = (state, length) => state.large ? (state.case || '') + ' (' + amount(state.large) + ')'
  : short(state.state, length);

function showNodes(states) {
  const found = searched(states);
  const rows = found.slice(0, ROWS).map((node) => {
    const state = states.get(node.name) || {};
    const { counts, rate } = shownNodeState(node.name);
    const warnings = (state.doubts && state.doubts.length ? ', in doubt' : '') +
      (isBlocked(node) ? ', blocked' : '');
    const cells = [stateOf(state, 120), node.phase + warnings,
    typeof rate === 'number' ? Math.round(rate) : '', counts ? counts.deadLetters : '', node.restarts];
    const isChosen = node.name === model.chosen;
    return { key: node.name, signature: cells.join('\n') + node.running + isChosen, build: () =>
      make('tr', { class: isChosen ? 'chosen' : null },
        make('td', null, make('button', { type: 'button', class: 'plain', 'data-key': 'n' + node.name,
          'aria-pressed': isChosen ? 'true' : 'false', onclick: () => choose(node.name) }, node.name)),
        make('td', { class: 'code' }, cells[0]),
        make('td', { class: 'life ' + lifeStyle(node, warnings) }, cells[1]),
        make('td', { class: 'number' }, cells[2]),
        make('td', { class: cells[3] ? 'number alert' : 'number' }, cells[3]),
        make('td', { class: 'number' }, cells[4])) };
  });
  if (found.length > ROWS) rows.push(more(found.length - ROWS, 6));
  if (!found.length && byId('search').value) rows.push(row('No matching nodes.', 6));
  putRows(byId('nodes'), rows);
  byId('found').textContent = byId('search').value
    ? found.length + ' of ' + model.topology.nodes.length : '';
}

// Returns whether a node accepts no input because one of its outgoing pipes is full.
const isBlocked = (node) => node.running && ((shownNodeState(node.name).counts || {}).blocked || []).length > 0;

// A stopped node was stopped on purpose, so it is no failure.
const lifeStyle = (node, warnings) => node.phase === 'stopped' ? 'idle' : node.running && !warnings ? 'up' : 'down';

const more = (count, columns) => row(count + ' more: search for one', columns);
const row = (text, columns) => ({ key: '', signature: text, build: () =>
  make('tr', null, make('td', { colspan: columns }, text)) });

// Indexes the counters of both ends by pipe.
function indexPipes() {
  model.ends = new Map();
  const of = (name) => {
    if (!model.ends.has(name)) model.ends.set(name, {});
    return model.ends.get(name);
  };
  for (const node of model.topology.nodes) {
    const counts = shownNodeState(node.name).counts || {};
    for (const end of counts.outs || []) {
      Object.assign(of(end.name), { out: end, underWay: Math.max(0, end.events - end.applied),
        full: node.running && counts.blocked.includes(end.name) });
    }
    for (const end of counts.ins || []) of(end.name).in = end;
  }
}
const pipeEnds = (name) => model.ends.get(name) || {};

// Shows the pipes of the nodes that match the search.
function showPipes() {
  const wanted = byId('search').value.toLowerCase();
  const found = model.topology.pipes.filter((pipe) => pipe.name.toLowerCase().includes(wanted) ||
    pipe.from.toLowerCase().includes(wanted) || pipe.to.toLowerCase().includes(wanted));
  const rows = found.slice(0, ROWS).map((pipe) => {
    const ends = pipeEnds(pipe.name);
    const down = [['sender', pipe.from], ['receiver', pipe.to]].flatMap(([end, name]) => {
      const node = model.topology.nodes.find((one) => one.name === name);
      return node && !node.running ? [', ' + end + ' ' + node.phase] : [];
    });
    const fill = (ends.out ? ends.underWay + ' of ' + pipe.capacity + (ends.full ? ', full' : '') +
      (ends.in && ends.in.waiting ? ', ' + ends.in.waiting + ' at the receiver' : '') : '–') + down.join('');
    const [sent, applied] = ends.out ? [ends.out.events, ends.out.applied] : ['–', '–'];
    return { key: pipe.name, signature: [fill, sent, applied].join('\n'), build: () =>
      make('tr', null, make('td', { class: 'code' }, pipe.name),
        make('td', { class: ends.full || down.length ? 'alert' : ends.underWay ? 'up' : '' }, fill),
        make('td', { class: 'number' }, sent), make('td', { class: 'number' }, applied)) };
  });
  if (found.length > ROWS) rows.push(more(found.length - ROWS, 4));
  byId('pipes').closest('section').hidden = !model.topology.pipes.length;
  putRows(byId('pipes'), rows);
}
