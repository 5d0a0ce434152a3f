'use strict';
// Draws all panels, at most once per frame.

const ROWS = 300;   // The maximum number of rows in each table.

// If drawing takes long, it is split into several tasks, so that the page answers to keys and the
// mouse in between.
const SLICE = 12;   // The time after which another task draws the remaining panels. Unit: milliseconds.

let isDue = false;       // Whether the page will be drawn, or is being drawn.
let isDrawing = false;
let isOutdated = false;  // Whether the contents have changed while the page was being drawn.
let isWhole = false;     // Whether the next drawing includes the panels that are out of sight.

let dueUpdate = null;    // The timer of an update that waits.
let drawnAt = 0;

// Draws an update from the inspector. Updates are drawn less often than the changes that the user makes.
const UPDATES = 200;     // The least time between two drawn updates. Unit: milliseconds.
function showUpdate() {
  if (isDrawing) isOutdated = true;
  if (isDue) return;
  isDue = true;
  const pause = UPDATES - (performance.now() - drawnAt);
  if (pause <= 0) requestAnimationFrame(startDrawing);
  else dueUpdate = setTimeout(() => { dueUpdate = null; requestAnimationFrame(startDrawing); }, pause);
}

// Draws a change that the user has made, in all panels.
function show() {
  isWhole = true;
  if (dueUpdate !== null) {
    clearTimeout(dueUpdate);
    dueUpdate = null;
    isDue = false;
  }
  if (isDrawing) isOutdated = true;
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(startDrawing);
}

function startDrawing() {
  isDrawing = true;
  drawnAt = performance.now();
  drawRest(panels());
}

function drawRest(rest) {
  const start = performance.now();
  while (rest.length) {
    try { rest.shift()(); } catch (error) { reportError(error); }
    if (rest.length && performance.now() - start > SLICE) { setTimeout(drawRest, 0, rest); return; }
  }
  isDue = isDrawing = false;
  if (!isOutdated) return;
  isOutdated = false;
  if (isWhole) show(); else showUpdate();
}

function showAll() {
  isWhole = true;
  for (const draw of panels()) draw();
}

// Panels that are out of sight are drawn when they become visible. For the browser's search and for
// screen readers, they are also drawn once in a while.
const UNSEEN = 2000;     // The least time between two drawings of panels that are out of sight. Unit: milliseconds.
const unseen = new Set();    // The sections that are out of sight.
const outdated = new Set();  // The sections in `unseen` that are out of date.
let wholeAt = -UNSEEN;
let dueWhole = null;

const sight = new IntersectionObserver((entries) => {
  let isMissing = false;
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) unseen.add(target);
    else if (unseen.delete(target) && outdated.has(target)) isMissing = true;
  }
  if (isMissing) show();
}, { rootMargin: '100px' });

// Returns the functions that draw the panels, in order.
function panels() {
  if (!model.latest) return [];
  const isAll = isWhole || performance.now() - wholeAt >= UNSEEN;
  isWhole = false;
  model.topology = shownTopology();
  const states = shownStates();
  indexPipes();
  indexConditions(states);
  const found = [() => { showHead(); showHealth(); showFollowed(); }];
  if (isAll) {
    wholeAt = performance.now();
    outdated.clear();
    clearTimeout(dueWhole);
    dueWhole = null;
  }
  for (const [name, draw] of PANELS) {
    const section = byId(name).closest('section');
    if (isAll || !unseen.has(section)) found.push(() => draw(states));
    else outdated.add(section);
  }
  if (outdated.size && dueWhole === null) {
    dueWhole = setTimeout(() => { dueWhole = null; showUpdate(); }, UNSEEN - (performance.now() - wholeAt) + 1);
  }
  return [...found, putAddress, settle];
}
const PANELS = [['graph', (states) => showGraph(states)], ['timebox', () => showTimeline()], ['nodes', (states) => showNodes(states)],
  ['pipes', () => showPipes()], ['node', (states) => showNode(states)], ['chart', () => showChart()], ['logs', () => showLogs()]];
for (const [name] of PANELS) sight.observe(byId(name).closest('section'));

// The sizes of elements. They are read only when they change, because a read after a change of the
// page makes the browser compute the layout of the page.
const sizes = new WeakMap();
const resizes = new ResizeObserver((entries) => {
  let isChanged = false;
  for (const { target } of entries) {
    const [former, size] = [sizes.get(target), { width: target.clientWidth, height: target.clientHeight }];
    sizes.set(target, size);
    isChanged = isChanged || former.width !== size.width || former.height !== size.height;
  }
  if (isChanged) show();
});
function sizeOf(element) {
  if (!sizes.has(element)) {
    sizes.set(element, { width: element.clientWidth, height: element.clientHeight });
    resizes.observe(element);
  }
  return sizes.get(element);
}

// The boxes that must be scrolled to their end after everything is drawn.
const ends = new Set();
function settle() {
  for (const box of ends) box.scrollTop = 1e9;
  ends.clear();
  if (movedTo !== null && !isAtEnd) byId('chart').scrollTop = movedTo;
  movedTo = null;
}

function say(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

// Replaces the contents of an element. If the element with the focus has a key, the new element
// with the same key gets the focus.
function put(parent, ...parts) {
  keepingFocus(parent, () => parent.replaceChildren(...parts));
}

// Replaces the rows of a table. Rows are given as [{ key, signature, build, shape, update }]. A row
// with the same key and signature keeps its element. If the signature has changed, but the row has
// the same shape, `update` changes the element. Otherwise, `build` makes a new element.
function putRows(parent, rows) {
  const known = drawn.get(parent) || new Map();
  const next = new Map();
  const outdated = new Set();
  for (const row of rows) {
    const former = known.get(row.key);
    if (former && former.signature === row.signature) next.set(row.key, former);
    else if (former && row.shape !== undefined && former.shape === row.shape) {
      row.update(former.element);
      former.signature = row.signature;
      next.set(row.key, former);
    } else {
      next.set(row.key, row);
      if (former) outdated.add(former.element);
    }
  }
  for (const [key, { element }] of known) if (!next.has(key)) outdated.add(element);
  const added = [...next.values()].filter((row) => row.element === undefined);
  if (outdated.size || added.length) {
    keepingScroll(parent, outdated, () => keepingFocus(parent, () => {
      for (const row of added) next.set(row.key, { signature: row.signature, shape: row.shape, element: row.build() });
      for (const element of outdated) element.remove();
      let place = parent.firstChild;
      for (const { element } of next.values()) {
        if (element === place) place = place.nextSibling;
        else parent.insertBefore(element, place);
      }
    }));
  } else if (![...next.keys()].every((key, index) => parent.children[index] === next.get(key).element)) {
    keepingFocus(parent, () => parent.append(...[...next.values()].map((row) => row.element)));
  }
  drawn.set(parent, next);
}
const drawn = new WeakMap();

function keyed(parent, key) {
  for (const one of parent.querySelectorAll('[data-key]')) if (one.getAttribute('data-key') === key) return one;
  return null;
}

// Keeps the scroll positions within elements that will be replaced.
function keepingScroll(parent, outdated, change) {
  const places = [...outdated].flatMap((element) => [...element.querySelectorAll('.scroll[data-key]')])
    .filter((one) => one.scrollLeft || one.scrollTop)
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
  say('title', topology.topology);
  const run = recordedRun();
  const reason = topology.reason || '';
  say('phase', run ? 'recorded run' : (reason.startsWith(topology.phase) ? reason : topology.phase + (reason ? ': ' + reason : '')) +
    (model.readOnly ? ' · read only' : ''));
  byId('phase').className = run ? '' : !topology.running ? 'down' : topology.phase === 'running' ? 'up' : 'degraded';
  const title = topology.topology + ' · PipeRuntime';
  if (document.title !== title) document.title = title;
  say('skipped', model.skipped ? model.skipped + ' steps not shown' : '');
  const isNow = model.at === null;
  say('moment', isNow ? presentWord() : clock(model.at));
  say('live', run ? 'End' : 'Now');
  byId('live').title = run ? 'Back to the end of the run (n)' : 'Back to now (n)';
  document.body.classList.toggle('recorded', run !== null);
  byId('time').className = isNow ? '' : 'past';
  byId('live').disabled = isNow;
  byId('freeze').setAttribute('aria-pressed', String(!isNow));
}

// The word for the latest instant.
const presentWord = () => recordedRun() ? 'end' : 'now';

// Returns the text of a state, cut to `length` characters.
const stateOf = (state, length) => state.large ? (state.case || '') + ' (' + amount(state.large) + ')'
  : short(state.state, length);

function showNodes(states) {
  // Nodes with the worst problems come first. Nodes with equal conditions stay in the order of the
  // topology.
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
    const classes = ['code' + (hue === null ? '' : ' swatch hue' + hue), 'life ' + (condition.style === 'letters' ? 'well' : condition.style),
      'number', cells[3] ? 'number letters' : 'number', 'number'];
    const update = (element) => {
      setClass(element, [isChosen ? 'chosen' : '', isDim ? 'dim' : ''].join(' ').trim());
      element.querySelector('button').setAttribute('aria-pressed', isChosen ? 'true' : 'false');
      if (element.cells[1].title !== cells[0]) element.cells[1].title = cells[0];
      cells.forEach((text, index) => setCell(element.cells[index + 1], text, classes[index]));
      return element;
    };
    return { key: node.name, signature: cells.join('\n') + condition.style + isChosen + isDim + hue, shape: '', update, build: () =>
      update(make('tr', null, make('td', null, make('button', { type: 'button', class: 'plain', 'data-key': 'n' + node.name,
        onclick: () => choose(node.name) }, node.name)), ...cells.map(() => make('td')))) };
  });
  if (found.length > ROWS) rows.push(more(found.length - ROWS, 6));
  if (!found.length && byId('search').value) rows.push(row('No matching nodes.', 6));
  putRows(byId('nodes'), rows);
  say('found', byId('search').value ? found.length + ' of ' + model.topology.nodes.length : '');
}

function setCell(cell, text, style) {
  if (cell.textContent !== String(text)) cell.textContent = text;
  setClass(cell, style);
}
function setClass(element, style) {
  if ((element.getAttribute('class') || '') === style) return;
  if (style) element.setAttribute('class', style); else element.removeAttribute('class');
}

// Returns whether a node accepts no events because one of its outbound pipes is full.
const isBlocked = (node) => node.running && ((shownNodeState(node.name).counts || {}).blocked || []).length > 0;

const more = (count, columns) => row(count + ' more: search for one', columns);
const row = (text, columns) => ({ key: '', signature: text, build: () =>
  make('tr', null, make('td', { colspan: columns }, text)) });

// Finds the counters of each pipe's sender and receiver.
function indexPipes() {
  model.ends = new Map();
  if (recordedRun()) { indexRecordedPipes(); return; }
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

// Counts the events of each pipe in the steps of a recorded run until the shown instant. If the page lacks steps, the
// counts are unknown.
let pipeCounts = { key: null, ends: new Map() };
function indexRecordedPipes() {
  const steps = visibleSteps();
  const key = [steps.length, model.stepCount, model.ignored.length && model.at].join(' ');
  if (pipeCounts.key !== key) pipeCounts = { key, ends: model.skipped ? new Map() : countEvents(steps) };
  model.ends = pipeCounts.ends;
}

function countEvents(steps) {
  const counts = new Map(model.topology.pipes.map((pipe) => [pipe.name, { pipe, sent: new Set(), applied: new Set() }]));
  for (const step of steps) {
    // After a kill, a node sends an event again with the same number.
    for (const event of step.sent || []) if (counts.has(event.pipe)) counts.get(event.pipe).sent.add(keyOf(event));
    if (step.source && !step.postponed && counts.has(step.source.pipe)) counts.get(step.source.pipe).applied.add(keyOf(step.source));
  }
  for (const step of model.ignored) {
    if (step.source && (model.at === null || step.time <= model.at) && counts.has(step.source.pipe)) counts.get(step.source.pipe).applied.add(keyOf(step.source));
  }
  const isRecorded = (name) => model.topology.nodes.some((node) => node.name === name && node.phase !== 'not recorded');
  return new Map([...counts].filter(([, { pipe }]) => isRecorded(pipe.from) && isRecorded(pipe.to)).map(([name, { pipe, sent, applied }]) => {
    const underWay = Math.max(0, sent.size - applied.size);
    return [name, { out: { name, events: sent.size, applied: applied.size, waiting: underWay, capacity: pipe.capacity }, underWay, full: false }];
  }));
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
      return node && !node.running && !['ended', 'not recorded'].includes(node.phase) ? [', ' + end + ' ' + node.phase] : [];
    });
    const fill = (ends.out ? ends.underWay + ' of ' + pipe.capacity + (ends.full ? ', full' : '') +
      (ends.in && ends.in.waiting ? ', ' + ends.in.waiting + ' at the receiver' : '') : '–') + down.join('');
    const [sent, applied] = ends.out ? [ends.out.events, ends.out.applied] : ['–', '–'];
    const isDim = followed && !followed.pipes.has(pipe.name);
    const style = ends.full ? 'blocked' : down.length ? 'alert' : ends.underWay ? 'up' : '';
    const update = (element) => {
      setClass(element, isDim ? 'dim' : '');
      [[fill, style], [sent, 'number'], [applied, 'number']].forEach(([text, own], index) => setCell(element.cells[index + 1], text, own));
      return element;
    };
    return { key: pipe.name, signature: [fill, sent, applied, isDim, style].join('\n'), shape: '', update, build: () =>
      update(make('tr', null, make('td', { class: 'code' }, make('button', { type: 'button', class: 'plain',
        title: 'Follow the last event', 'data-key': 'p' + pipe.name, onclick: () => followPipes([pipe.name]) }, pipe.name)),
      make('td'), make('td'), make('td'))) };
  });
  if (found.length > ROWS) rows.push(more(found.length - ROWS, 4));
  byId('pipes').closest('section').hidden = !model.topology.pipes.length;
  putRows(byId('pipes'), rows);
}
