'use strict';
// The sequence chart. Each node has a vertical line, and each step has a row. An arrow leads to a step from the step
// that sent its event, or from the step that started its effect. The steps of a synchronized event share one row. Only
// rows near the visible part of the chart have elements, so the number of steps does not matter.

const ROW = 28;             // The height of a row. Unit: pixels.
const CLOCK = 92;           // The width of the times at the left.
const LANE = { narrow: 36, least: 88, most: 280, dot: 20 };
const MAX_CHART_ROWS = 1000;
const OVERSCAN = 6;        // The number of rows with elements above and below the visible part.

let sequence = { rows: [], lanes: [], width: 0, index: new Map(), x: new Map(), waiting: new Map() };
let isAtEnd = true;         // Whether the chart follows new steps.
let active = null;          // The key of the row that the keyboard has selected.
let revealed = null;        // A step that becomes visible when the chart is drawn next.
const seenLanes = new Set();

let chartTop = 0;           // How far the chart is scrolled. Unit: pixels.
let movedTo = null;         // Where the chart will be scrolled to once everything is drawn.

const isAtNewestStep = () => isAtEnd;
const headHeight = () => sequence.isNarrow ? 92 : 28;
const sequenceHeight = () => sequence.rows.length * ROW + 8;

function forgetSequence() {
  seenLanes.clear();
  active = revealed = movedTo = null;
  isAtEnd = true;
}

function showChart() {
  const box = byId('chart');
  const size = sizeOf(box);
  const former = sequence;
  const anchor = isAtEnd ? null : former.rows[Math.floor(chartTop / ROW)];
  const rows = sequenceRows();
  const lanes = usedLanes(rows);
  // On a narrow screen, the names of nodes are vertical, and each label begins with the name.
  const isNarrow = size.width < 500;
  box.classList.toggle('narrow', isNarrow);
  const width = Math.max(isNarrow ? LANE.narrow : LANE.least, Math.min(LANE.most, Math.floor((size.width - CLOCK - 16) / Math.max(1, lanes.length))));
  sequence = { rows, lanes, width, isNarrow, index: new Map(), waiting: waitingEvents(rows),
    x: new Map(lanes.map((name, index) => [name, CLOCK + index * width + LANE.dot])) };
  rows.forEach((row, index) => { for (const step of row.steps) sequence.index.set(step, index); });
  const [full, height] = [CLOCK + lanes.length * width, sequenceHeight()];
  for (const one of [byId('field'), byId('chartheads')]) one.style.width = full + 'px';
  byId('field').style.height = height + 'px';
  byId('chartlines').setAttribute('width', full);
  byId('chartlines').setAttribute('height', height);
  byId('rows').hidden = byId('chartheads').hidden = !rows.length;
  say('nosteps', rows.length ? '' : recordedRun() ? 'No steps until this instant.' : 'No steps yet. Send an event to a node, and its step appears here.');
  putRows(byId('chartheads'), lanes.map((name) => ({ key: name, signature: sequence.x.get(name) + ' ' + width + (name === model.chosen),
    build: () => { const head = make('button', { type: 'button', 'data-key': 'h' + name, title: name,
      'aria-pressed': name === model.chosen ? 'true' : 'false', onclick: () => choose(name) }, name);
    head.style.left = sequence.x.get(name) - (isNarrow ? 12 : LANE.dot - 4) + 'px';
    head.style.maxWidth = isNarrow ? '' : width - 8 + 'px';
    return head; } })));
  putRows(byId('lifelines'), lanes.map((name) => ({ key: name, signature: sequence.x.get(name),
    build: () => draw('line', { class: 'lifeline', x1: sequence.x.get(name), x2: sequence.x.get(name), y1: 0, y2: '100%' }) })));
  if (revealed && sequence.index.has(revealed)) scrollToRow(sequence.index.get(revealed));
  else if (!isAtEnd && anchor) {
    // Keeps the visible rows in place when earlier rows have been removed.
    const index = sequence.index.get(anchor.steps[0]);
    const before = former.index.get(anchor.steps[0]);
    if (index !== undefined && index !== before) chartTop = movedTo = Math.max(0, chartTop + (index - before) * ROW);
  }
  if (isAtEnd) {
    chartTop = Math.max(0, height + headHeight() - size.height);
    ends.add(box);
  }
  revealed = null;
  drawRows();
}

function drawRows() {
  const { rows } = sequence;
  const first = Math.max(0, Math.floor(chartTop / ROW) - OVERSCAN);
  const end = Math.min(rows.length, Math.ceil((chartTop + sizeOf(byId('chart')).height) / ROW) + OVERSCAN);
  const shown = [];
  const arrows = [];
  for (let index = 0; index < rows.length; index += 1) {
    if (index >= first && index < end) shown.push(rowElement(rows[index], index));
    // An arrow that only crosses the visible part is drawn as well.
    for (const step of rows[index].steps) {
      const start = step.origin === undefined ? index : sequence.index.get(step.origin);
      if (Math.min(index, start === undefined ? index : start) < end && Math.max(index, start === undefined ? index : start) >= first) {
        arrows.push(arrowElement(rows[index], step, index, start));
      }
    }
  }
  putRows(byId('rows'), shown);
  putRows(byId('arrows'), arrows);
  const selected = shown.some((one) => one.key === active) ? 'row' + active : null;
  if (selected) byId('rows').setAttribute('aria-activedescendant', selected);
  else byId('rows').removeAttribute('aria-activedescendant');
  byId('latest').disabled = isAtEnd;
}

function sequenceRows() {
  // The steps of a composite repeat the steps of its nodes, so they are shown only if the user has selected the composite.
  const composites = new Set(model.topology.nodes.filter((node) => node.kind === 'composite' &&
    node.name !== model.chosen).map((node) => node.name));
  // Nodes that were removed from the topology have no line.
  const names = new Set(model.topology.nodes.map((node) => node.name));
  const steps = followed ? followed.steps : visibleSteps();
  const isMine = byId('only').checked && model.chosen && !followed ? mineOnly() : null;
  const most = isAtEnd ? MAX_CHART_ROWS : 5 * MAX_CHART_ROWS;
  const rows = [];
  const groups = new Map();
  for (let index = steps.length - 1; index >= 0 && rows.length < most; index -= 1) {
    const step = steps[index];
    if (!names.has(step.node) || composites.has(step.node) || (isMine && !isMine(step))) continue;
    const group = step.transaction && isStep(step) ? groupOf(step) : null;
    if (group && groups.has(group)) groups.get(group).steps.push(step);
    else {
      const row = { key: step.id, steps: [step], group };
      if (group) groups.set(group, row);
      rows.push(row);
    }
  }
  rows.reverse();
  if (followed) countGaps(rows);
  return rows;
}

// While an event is followed, counts the other steps before each row.
function countGaps(rows) {
  let former = null;
  for (const row of rows) {
    const index = indexBefore(row.steps[0].time);
    row.gap = former === null ? 0 : Math.max(0, index - former - row.steps.length);
    former = index;
  }
}

function mineOnly() {
  const pipes = new Set(model.topology.pipes.filter((pipe) => pipe.to === model.chosen).map((pipe) => pipe.name));
  return (step) => step.node === model.chosen || (step.together || []).some((one) => one.node === model.chosen) ||
    (step.sent || []).some((event) => pipes.has(event.pipe));
}

// A node keeps its line once it has taken a step, so that lines do not move. While an event is
// followed, only the nodes of this event have lines.
function usedLanes(rows) {
  const used = followed || byId('only').checked ? new Set() : seenLanes;
  for (const row of rows) for (const step of row.steps) used.add(step.node);
  if (followed) for (const pipe of model.topology.pipes) if (followed.pipes.has(pipe.name)) used.add(pipe.to);
  return model.topology.nodes.map((node) => node.name).filter((name) => used.has(name));
}

function rowElement(row, index) {
  const waits = row.steps.flatMap((step) => sequence.waiting.get(step) || []);
  const isFocus = followed && row.steps.includes(followed.at);
  const shape = [sequence.width, sequence.lanes.length, sequence.isNarrow, row.steps.length, row.gap,
    row.steps.map((step) => sequence.x.get(step.node)), waits.map((one) => one.pipe + one.count)].join();
  // A row that has only moved keeps its elements.
  const update = (element) => {
    element.setAttribute('aria-selected', row.key === active ? 'true' : 'false');
    element.setAttribute('aria-setsize', sequence.rows.length);
    element.setAttribute('aria-posinset', index + 1);
    element.classList.toggle('focus', Boolean(isFocus));
    element.style.transform = 'translateY(' + index * ROW + 'px)';
    return element;
  };
  return { key: row.key, shape, signature: [shape, index, row.key === active, isFocus].join(), update, build: () => {
    const label = clock(row.steps[0].time) + ' ' + row.steps.map(stepSentence).join('; ') +
      waits.map((one) => '; ' + (one.count > 1 ? one.count + ' events wait' : 'an event waits') + ' for ' + one.to).join('');
    return update(make('li', { role: 'option', id: 'row' + row.key, 'aria-label': label },
      make('span', { class: 'when' }, clock(row.steps[0].time)), ...row.steps.map((step) => stepLabel(step, row)),
      row.gap ? make('span', { class: 'gap' }, counted(row.gap, 'other step')) : null));
  } };
}

function stepLabel(step, row) {
  const isRefused = step.refused !== undefined;
  const event = step.event === undefined ? step.cause || '' : short(step.event, 40);
  const words = step.is === 'life' ? (step.again ? '↻ began again: ' : step.running ? '▷ ' : '✖ ') + step.phase
    : isRefused ? event + (step.postponed ? ' postponed: ' : ' refused: ') + String(step.refused).replace(/^refused: /, '')
      // The steps of a synchronized event have the same event.
      : (row.steps.length > 1 ? '→ ' : event + ' → ') + short(step.state, 60);
  const label = make('span', { class: 'label' + (isRefused || (step.is === 'life' && !step.running) ? ' alert' : ''), 'data-step': step.id,
    title: step.is === 'life' ? step.node + ': ' + step.phase + (step.reason ? ', ' + step.reason : '')
      : nameOf(step) + ': ' + stateText(step.from) + ' — ' + stateText(step.event) + ' → ' + stateText(step.state) + ' (' + (step.cause || '') + ')' },
  (sequence.isNarrow ? nameOf(step) + ': ' : keyText(step)) + words, ...(sequence.waiting.get(step) || []).map(({ to, count }) =>
    make('span', { class: 'waiting' }, ' … ' + (count > 1 ? count + ' wait' : 'waits') + ' for ' + to)));
  place(label, step, row);
  return label;
}

// The key of an instance, such as `[4711] `.
const keyText = (step) => step.instance ? short(step.instance.slice(step.instance.indexOf('[')), 24) + ' ' : '';

// Places a label beside its dot: at the right, or at the left if there is more space.
function place(label, step, row) {
  const x = sequence.x.get(step.node);
  const full = CLOCK + sequence.lanes.length * sequence.width;
  const others = row.steps.filter((one) => one !== step).map((one) => sequence.x.get(one.node));
  const right = Math.min(full, ...others.filter((one) => one > x).map((one) => one - 8)) - x - 14;
  const left = others.length ? 0 : x - CLOCK - 14;
  if (left > right && right < 240) {
    label.style.left = x - 11 + 'px';
    label.classList.add('before');
    label.style.maxWidth = left + 'px';
  } else {
    label.style.left = x + 11 + 'px';
    label.style.maxWidth = Math.max(24, right) + 'px';
  }
}

// Draws three parts around the middle of a step's row: the arrow to the step, the dot of the step,
// and the arrows of sent events that have not arrived yet.
function arrowElement(row, step, index, start) {
  const x = sequence.x.get(step.node);
  const from = step.origin ? sequence.x.get(step.origin.node) : undefined;
  const waits = sequence.waiting.get(step) || [];
  const isLit = followed !== null;
  const above = step.origin && start !== undefined ? (start - index) * ROW : null;
  const shape = [above, index === 0, x, from, isLit, row.steps.map((one) => sequence.x.get(one.node)),
    waits.map((one) => one.pipe + one.count + sequence.x.get(one.to))].join();
  const update = (element) => {
    element.setAttribute('transform', 'translate(0 ' + (index * ROW + ROW / 2) + ')');
    return element;
  };
  return { key: step.id, shape, signature: shape + ' ' + index, update, build: () => update(draw('g', { class: isLit ? 'lit' : null },
    ...arrowParts(row, step, above, x, from, index),
    ...waits.map((one) => waitingArrow(one, x, sequence.x.get(one.to))))) };
}

function arrowParts(row, step, above, x, from, index) {
  const tip = followed ? 'url(#tip-lit)' : 'url(#tip)';
  if (step.is === 'life') return [draw('path', { class: 'gone', d: `M${x - 14} 0H${x + 14}` })];
  const parts = [];
  const isRefused = step.refused !== undefined;
  if (row.group && step === row.steps[0] && row.steps.length > 1) {
    const places = row.steps.map((one) => sequence.x.get(one.node));
    parts.push(draw('rect', { class: 'bar', x: Math.min(...places) - 8, y: -8, width: Math.max(...places) - Math.min(...places) + 16,
      height: 16, rx: 8 }, draw('title', null, 'together: ' + row.steps.map((one) => one.node).join(', '))));
  }
  if (step.source && above !== null) {
    // An event to the node itself goes around the node's line.
    const side = Math.sign(x - from);
    parts.push(draw('path', { class: isRefused ? 'arrow refused' : 'arrow', 'marker-end': tip, d: from === x
      ? `M${x + 5} ${above}q14 0 14 10V-10q0 10 -8 10` : `M${from} ${above}L${x - 6 * side} ${6 * above / Math.max(6, Math.abs(x - from))}` },
    draw('title', null, step.source.pipe)));
  }
  if (step.effect !== undefined) {
    const top = above === null ? Math.max(-index * ROW - ROW / 2, -24) : above;
    parts.push(draw('path', { class: 'arrow effect', 'marker-end': tip, 'data-effect': step.effect,
      d: step.origin ? `M${x - 4} ${top}q-9 0 -9 8V-8q0 8 8 8` : `M${x - 13} ${top}V-8q0 8 8 8` },
    draw('title', null, step.node + ': an effect of version ' + step.effect + ' gave the event' +
      (step.origin ? '' : ', before the first shown step'))));
  }
  parts.push(isRefused ? draw('path', { class: 'cross', d: `M${x - 5} -5l10 10m0 -10l-10 10` })
    : draw('circle', { class: 'dot', cx: x, cy: 0, r: 5 }));
  return parts;
}

function waitingArrow({ pipe, count }, from, to) {
  // A pipe from a node to itself ends beside the node's line.
  const end = to === undefined || from === to ? from + 40 : to + (to > from ? -8 : 8);
  return draw('path', { class: 'arrow waits', 'marker-end': 'url(#tip)', d: `M${from} 0H${end}` },
    draw('title', null, pipe + ': ' + (count > 1 ? count + ' wait' : 'waits')));
}

// Returns the pending events, by the step that sent them. An event is pending if the receiver has neither accepted nor
// refused it, and the pipe's counters show that the event is in flight. Pipes to composites are excluded, because their
// counters do not show which events the composite has already processed.
function waitingEvents(rows) {
  const pipes = new Map(model.topology.pipes.map((pipe) => [pipe.name, pipe]));
  const composites = new Set(model.topology.nodes.filter((node) => node.kind === 'composite').map((node) => node.name));
  const streams = new Map();
  for (const step of visibleSteps()) for (const event of step.sent || []) streams.set(event.pipe, event.stream);
  const waiting = new Map();
  for (const row of rows) for (const step of row.steps) {
    if (!step.sent || !step.sent.length) continue;
    const events = new Map();
    for (const event of step.sent) {
      const [pipe, ends] = [pipes.get(event.pipe), pipeEnds(event.pipe)];
      if (!pipe || composites.has(pipe.to) || !ends.out) continue;
      const applied = Math.max(ends.out.applied, ends.in ? ends.in.applied : 0);
      if (String(event.stream) !== String(streams.get(event.pipe)) || event.number <= applied) continue;
      if (step.results.some((one) => one.source && keyOf(one.source) === keyOf(event) && (model.at === null || one.time <= model.at))) continue;
      const one = events.get(event.pipe) || { pipe: event.pipe, to: pipe.to, count: 0 };
      one.count += 1;
      events.set(event.pipe, one);
    }
    if (events.size) waiting.set(step, [...events.values()]);
  }
  return waiting;
}

// Scrolling and keys

function scrollToRow(index) {
  const { height } = sizeOf(byId('chart'));
  const head = headHeight();
  if (index * ROW < chartTop) chartTop = index * ROW;
  else if ((index + 1) * ROW + head > chartTop + height) chartTop = (index + 1) * ROW + head - height;
  isAtEnd = chartTop + height >= sequenceHeight() + head - 4;
  movedTo = chartTop;
}

// Makes a step visible when the chart is drawn next.
function reveal(step) {
  revealed = step;
  active = null;
}

function activate(index) {
  const row = sequence.rows[Math.max(0, Math.min(sequence.rows.length - 1, index))];
  if (!row) return;
  active = row.key;
  scrollToRow(sequence.index.get(row.steps[0]));
  drawRows();
  settle();
}

byId('rows').addEventListener('keydown', (event) => {
  const last = sequence.rows.length - 1;
  const found = sequence.rows.findIndex((row) => row.key === active);
  const current = found < 0 ? last : found;
  const page = Math.max(1, Math.floor(sizeOf(byId('chart')).height / ROW) - 2);
  const to = { ArrowDown: current + 1, ArrowUp: found < 0 ? last : current - 1, Home: 0, End: last,
    PageDown: current + page, PageUp: current - page }[event.key];
  if (to !== undefined && !event.ctrlKey && !event.altKey && !event.metaKey) {
    event.preventDefault();
    activate(to);
  } else if (event.key === 'Enter' && found >= 0) {
    event.preventDefault();
    const [step] = sequence.rows[current].steps;
    reveal(step);
    follow(step);
  }
});
byId('rows').addEventListener('click', (event) => {
  const label = event.target.closest('[data-step]');
  const element = event.target.closest('li');
  const row = element && sequence.rows.find((one) => 'row' + one.key === element.id);
  if (!row) return;
  const step = label ? row.steps.find((one) => String(one.id) === label.dataset.step) : row.steps[0];
  active = row.key;
  reveal(step);
  if (step.is === 'life') choose(step.node);
  else if (followed && followed.all.has(step)) focusStep(step);
  else follow(step);
});
byId('chart').addEventListener('scroll', () => {
  chartTop = byId('chart').scrollTop;
  isAtEnd = isAtFloor(byId('chart'));
  drawRows();
});
byId('latest').addEventListener('click', () => {
  isAtEnd = true;
  active = null;
  show();
  byId('rows').focus({ preventScroll: true });
});
