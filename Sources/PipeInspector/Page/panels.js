'use strict';
// What is shown. Once for each frame of the screen at most.

const ROWS = 300;   // Nodes in the table, and pipes.

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
  model.topology = topologyThen();
  const states = present();
  indexPipes();
  showHead();
  showNodes(states);
  showPipes();
  showGraph(states);
  showNode(states);
  showChart();
  showLogs();
}

// Replaces the contents. The focus stays where it is, on what has the same key.
function put(parent, ...parts) {
  keepingFocus(parent, () => parent.replaceChildren(...parts));
}

// The same for rows, of which those stay that are as they were: [{ key, sign, build }], where what is built
// is the same as long as `sign` is.
function putRows(parent, rows) {
  const known = drawn.get(parent) || new Map();
  const next = new Map();
  keepingPlaces(parent, () => keepingFocus(parent, () => {
    for (const row of rows) {
      const former = known.get(row.key);
      next.set(row.key, former && former.sign === row.sign ? former : { sign: row.sign, element: row.build() });
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

function keepingPlaces(parent, change) {
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

// What a node is in, for a place that has room for so many characters.
const stateOf = (state, length) => state.large ? (state.case || '') + ' (' + amount(state.large) + ')'
  : short(state.state, length);

function showNodes(states) {
  const found = searched(states);
  const rows = found.slice(0, ROWS).map((node) => {
    const state = states.get(node.name) || {};
    const { counts, rate } = standingThen(node.name);
    const troubles = (state.doubts && state.doubts.length ? ', in doubt' : '') +
      (isBlocked(node) ? ', blocked' : '');
    const cells = [stateOf(state, 120), node.phase + troubles,
    typeof rate === 'number' ? Math.round(rate) : '', counts ? counts.letters : '', node.restarts];
    const isChosen = node.name === model.chosen;
    return { key: node.name, sign: cells.join('\n') + node.running + isChosen, build: () =>
      make('tr', { class: isChosen ? 'chosen' : null },
        make('td', null, make('button', { type: 'button', class: 'plain', 'data-key': 'n' + node.name,
          'aria-pressed': isChosen ? 'true' : 'false', onclick: () => choose(node.name) }, node.name)),
        make('td', { class: 'code' }, cells[0]),
        make('td', { class: 'life ' + lifeStyle(node, troubles) }, cells[1]),
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

// Whether a node takes no input since a pipe of its own is full.
const isBlocked = (node) => node.running && ((standingThen(node.name).counts || {}).blocked || []).length > 0;

// A node that was stopped is down because somebody wants it so.
const lifeStyle = (node, troubles) => node.phase === 'stopped' ? 'idle' : node.running && !troubles ? 'up' : 'down';

const more = (count, columns) => row(count + ' more: search for one', columns);
const row = (text, columns) => ({ key: '', sign: text, build: () =>
  make('tr', null, make('td', { colspan: columns }, text)) });

// By pipe, what its ends count.
function indexPipes() {
  model.ends = new Map();
  const of = (name) => {
    if (!model.ends.has(name)) model.ends.set(name, {});
    return model.ends.get(name);
  };
  for (const node of model.topology.nodes) {
    const counts = standingThen(node.name).counts || {};
    for (const end of counts.outs || []) {
      Object.assign(of(end.name), { out: end, underWay: Math.max(0, end.events - end.applied),
        full: node.running && counts.blocked.includes(end.name) });
    }
    for (const end of counts.ins || []) of(end.name).in = end;
  }
}
const pipeEnds = (name) => model.ends.get(name) || {};

// Of the nodes that are searched for, if any are.
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
    return { key: pipe.name, sign: [fill, sent, applied].join('\n'), build: () =>
      make('tr', null, make('td', { class: 'code' }, pipe.name),
        make('td', { class: ends.full || down.length ? 'alert' : ends.underWay ? 'up' : '' }, fill),
        make('td', { class: 'number' }, sent), make('td', { class: 'number' }, applied)) };
  });
  if (found.length > ROWS) rows.push(more(found.length - ROWS, 4));
  byId('pipes').closest('section').hidden = !model.topology.pipes.length;
  putRows(byId('pipes'), rows);
}
