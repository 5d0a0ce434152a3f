'use strict';
// Draws all panels, at most once per frame.

const ROWS = 300;   // The maximum number of rows in each table.

// The panels are drawn in several tasks if they take long, so that the page answers to keys and the mouse in between.
const SLICE = 12;   // The time after which another task draws the remaining panels. Unit: milliseconds.

let isDue = false;       // Whether the page will be drawn, or is being drawn.
let isDrawing = false;
let isOutdated = false;  // Whether the contents have changed while the page was being drawn.

let dueUpdate = null;    // The timer of an update that waits.
let drawnAt = 0;

// Draws an update from the inspector. Updates are drawn less often than the changes that the user makes.
const UPDATES = 200;     // The least time between two drawn updates. Unit: milliseconds.
function showUpdate() {
  const pause = UPDATES - (performance.now() - drawnAt);
  if (dueUpdate !== null) return;
  if (isDue || pause <= 0) { show(); return; }
  isDue = true;
  dueUpdate = setTimeout(() => { dueUpdate = null; isDue = false; show(); }, pause);
}

function show() {
  if (dueUpdate !== null) {
    clearTimeout(dueUpdate);
    dueUpdate = null;
    isDue = false;
  }
  if (isDrawing) isOutdated = true;
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDrawing = true;
    drawnAt = performance.now();
    drawRest(panels());
  });
}

function drawRest(rest) {
  const start = performance.now();
  while (rest.length) {
    try { rest.shift()(); } catch (error) { reportError(error); }
    if (rest.length && performance.now() - start > SLICE) { setTimeout(drawRest, 0, rest); return; }
  }
  isDue = isDrawing = false;
  if (isOutdated) { isOutdated = false; show(); }
}

function showAll() { for (const draw of panels()) draw(); }

// Returns the functions that draw the panels, in order.
function panels() {
  if (!model.latest) return [];
  model.topology = shownTopology();
  const states = shownStates();
  indexPipes();
  indexConditions(states);
  return [() => { showHead(); showHealth(); showFollowed(); }, () => showGraph(states), showTimeline,
    () => { showNodes(states); showPipes(); }, () => showNode(states), showChart, showLogs, putAddress];
}

// Replaces the contents of an element. If the element with the focus has a key, the new element
// with the same key gets the focus.
function put(parent, ...parts) {
  keepingFocus(parent, () => parent.replaceChildren(...parts));
}

// Replaces the rows of a table. Rows are given as [{ key, signature, build }]. A row whose key and
// signature have not changed keeps its element.
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
  byId('phase').className = !topology.running ? 'down' : topology.phase === 'running' ? 'up' : 'degraded';
  document.title = topology.topology + ' · PipeRuntime';
  byId('skipped').textContent = model.skipped ? model.skipped + ' steps not shown' : '';
  const isNow = model.at === null;
  byId('moment').textContent = isNow ? 'now' : clock(model.at);
  byId('time').className = isNow ? '' : 'past';
  byId('live').disabled = isNow;
  byId('freeze').setAttribute('aria-pressed', String(!isNow));
}

// Returns the text of a state, cut to `length` characters.
const stateOf = (state, length) => state.large ? (state.case || '') + ' (' + amount(state.large) + ')'
  : short(state.state, length);

function showNodes(states) {
  // Problems come first; otherwise, the order is the order of the topology.
  const found = searched(states).sort((a, b) => model.conditions.get(a.name).rank - model.conditions.get(b.name).rank);
  const rows = found.slice(0, ROWS).map((node) => {
    const condition = model.conditions.get(node.name);
    const state = states.get(node.name) || {};
    const { counts, rate } = shownNodeState(node.name);
    const life = condition.words.filter((word) => !word.includes('dead letter'));
    if (node.running) life.unshift(node.phase);
    const cells = [stateOf(state, 120), life.join(', '),
    typeof rate === 'number' ? Math.round(rate) : '', counts ? counts.deadLetters : '', node.restarts];
    const isChosen = node.name === model.chosen;
    const isDim = followed && !followed.nodes.has(node.name);
    const hue = hueOf(node.name, caseName(state.state) || state.case);
    return { key: node.name, signature: cells.join('\n') + condition.style + isChosen + isDim + hue, build: () =>
      make('tr', { class: [isChosen ? 'chosen' : '', isDim ? 'dim' : ''].join(' ').trim() || null },
        make('td', null, make('button', { type: 'button', class: 'plain', 'data-key': 'n' + node.name,
          'aria-pressed': isChosen ? 'true' : 'false', onclick: () => choose(node.name) }, node.name)),
        make('td', { class: 'code' + (hue === null ? '' : ' swatch hue' + hue), title: cells[0] }, cells[0]),
        make('td', { class: 'life ' + (condition.style === 'letters' ? 'well' : condition.style) }, cells[1]),
        make('td', { class: 'number' }, cells[2]),
        make('td', { class: cells[3] ? 'number letters' : 'number' }, cells[3]),
        make('td', { class: 'number' }, cells[4])) };
  });
  if (found.length > ROWS) rows.push(more(found.length - ROWS, 6));
  if (!found.length && byId('search').value) rows.push(row('No matching nodes.', 6));
  putRows(byId('nodes'), rows);
  byId('found').textContent = byId('search').value
    ? found.length + ' of ' + model.topology.nodes.length : '';
}

// Returns whether a node accepts no events because one of its outbound pipes is full.
const isBlocked = (node) => node.running && ((shownNodeState(node.name).counts || {}).blocked || []).length > 0;

const more = (count, columns) => row(count + ' more: search for one', columns);
const row = (text, columns) => ({ key: '', signature: text, build: () =>
  make('tr', null, make('td', { colspan: columns }, text)) });

// Finds the counters of each pipe's sender and receiver.
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
    const isDim = followed && !followed.pipes.has(pipe.name);
    return { key: pipe.name, signature: [fill, sent, applied, isDim].join('\n'), build: () =>
      make('tr', { class: isDim ? 'dim' : null }, make('td', { class: 'code' }, make('button', { type: 'button', class: 'plain',
        title: 'Follow the last event', 'data-key': 'p' + pipe.name, onclick: () => followPipes([pipe.name]) }, pipe.name)),
        make('td', { class: ends.full ? 'blocked' : down.length ? 'alert' : ends.underWay ? 'up' : '' }, fill),
        make('td', { class: 'number' }, sent), make('td', { class: 'number' }, applied)) };
  });
  if (found.length > ROWS) rows.push(more(found.length - ROWS, 4));
  byId('pipes').closest('section').hidden = !model.topology.pipes.length;
  putRows(byId('pipes'), rows);
}
