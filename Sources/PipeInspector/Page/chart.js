'use strict';
// The sequence chart: a vertical line for each node, and a row for each step. An arrow leads to a step from the sender
// of its event, or from the step that started the effect that caused it. The steps of one synchronized event share a
// row, with a bar across the participants. A refused event has a row with a cross. A pending event has a dashed line
// from the step that sent it to its receiver.

const MAX_CHART_ROWS = 60;   // The maximum number of rows.

function sequenceRows() {
  // The steps of a composite repeat the steps of its nodes: show them only if the composite is selected.
  const composites = new Set(model.topology.nodes.filter((node) => node.kind === 'composite' &&
    node.name !== model.chosen).map((node) => node.name));
  // Nodes that were removed from the topology have no line.
  const names = new Set(model.topology.nodes.map((node) => node.name));
  let steps = visibleSteps().filter((step) => names.has(step.node) && !composites.has(step.node));
  if (byId('only').checked && model.chosen) {
    const mine = new Set();
    for (const step of steps) if (step.node === model.chosen && step.transaction) mine.add(id(step));
    const pipes = new Set(model.topology.pipes.filter((pipe) => pipe.to === model.chosen).map((pipe) => pipe.name));
    steps = steps.filter((step) => step.node === model.chosen || (step.transaction && mine.has(id(step))) ||
      (step.sent || []).some((event) => pipes.has(event.pipe)));
  }
  const rows = [];
  for (let index = steps.length - 1; index >= 0 && rows.length < MAX_CHART_ROWS; index -= 1) {
    const step = steps[index];
    const row = step.transaction && rows.find((one) => one.transaction === id(step));
    if (row) row.steps.push(step);
    else rows.push({ steps: [step], transaction: step.transaction ? id(step) : null });
  }
  return rows.reverse();
}
const id = (step) => typeof step.transaction === 'string' ? step.transaction : JSON.stringify(step.transaction);

let charted = null;   // The signature of the drawn chart.

function showChart() {
  const rows = sequenceRows();
  const waiting = waitingEvents(rows);
  const used = new Set(rows.flatMap((row) => row.steps.map((step) => step.node)));
  for (const events of waiting.values()) for (const event of events) used.add(event.to);
  const names = model.topology.nodes.map((node) => node.name).filter((name) => used.has(name));
  const signature = JSON.stringify([names, rows.map((row) => row.steps.map((step) => [step.id, waiting.get(step)]))]);
  if (signature === charted) return;
  charted = signature;
  const [left, wide, high, top] = [90, 170, 30, 30];
  const column = new Map(names.map((name, index) => [name, left + wide / 2 + index * wide]));
  const svg = draw('svg', { width: left + names.length * wide + 180, height: top + rows.length * high + 30,
    role: 'img', 'aria-label': 'The last ' + rows.length + ' steps' });
  const floor = top + rows.length * high + 6;
  for (const name of names) {
    // Repeat the names at the bottom, where users mostly look.
    for (const y of [16, floor + 16]) {
      svg.append(draw('text', { x: column.get(name), y, 'text-anchor': 'middle' }, short(name, 20)));
    }
    svg.append(draw('path', { class: 'wire', d: `M${column.get(name)} 22V${floor}` }));
  }
  const sentAt = new Map();
  rows.forEach((row, index) => {
    const y = top + index * high + high / 2;
    for (const step of row.steps) for (const event of step.sent || []) {
      sentAt.set(keyOf(event), { x: column.get(step.node), y });
    }
  });
  const enteredAt = new Map();
  rows.forEach((row, index) => {
    const y = top + index * high + high / 2;
    svg.append(draw('text', { x: 2, y: y + 4, class: 'small' }, clock(row.steps[0].time)));
    const places = row.steps.map((step) => column.get(step.node));
    if (row.transaction) {
      const [from, to] = [Math.min(...places), Math.max(...places)];
      svg.append(draw('rect', { class: 'bar', x: from - 10, y: y - 9, width: to - from + 20, height: 18, rx: 4 },
        draw('title', null, 'together: ' + row.steps.map((step) => step.node).join(', '))));
    }
    for (const step of row.steps) {
      const x = column.get(step.node);
      if (step.effect !== undefined) svg.append(effectPart(step, x, enteredAt.get(versionOf(step, step.effect)), y));
      for (const event of waiting.get(step) || []) svg.append(...waitingParts(event, x, column.get(event.to), y));
      svg.append(...stepParts(step, x, y, sentAt));
      if (step.version !== undefined && step.refused === undefined) enteredAt.set(versionOf(step, step.version), y);
    }
  });
  const box = byId('chart');
  const isAtEnd = isAtFloor(box);
  put(box, rows.length ? svg : make('p', null, 'No steps yet.'));
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

// Returns the pending events by the step that sent them: events that the receiver has neither taken nor refused, and
// that the ends of the pipe count as in flight. Excludes pipes to composites, whose numbers do not include the events
// that the composite has taken.
function waitingEvents(rows) {
  const pipes = new Map(model.topology.pipes.map((pipe) => [pipe.name, pipe]));
  const composites = new Set(model.topology.nodes.filter((node) => node.kind === 'composite').map((node) => node.name));
  const [ended, streams] = [new Set(), new Map()];
  for (const step of visibleSteps()) {
    if (step.source) ended.add(keyOf(step.source));
    for (const event of step.sent || []) streams.set(event.pipe, String(event.stream));
  }
  const waiting = new Map();
  for (const step of rows.flatMap((row) => row.steps)) {
    const events = new Map();
    for (const event of step.sent || []) {
      const [pipe, ends] = [pipes.get(event.pipe), pipeEnds(event.pipe)];
      if (!pipe || composites.has(pipe.to) || !ends.out || ended.has(keyOf(event))) continue;
      const applied = Math.max(ends.out.applied, ends.in ? ends.in.applied : 0);
      if (String(event.stream) !== streams.get(event.pipe) || event.number <= applied) continue;
      const one = events.get(event.pipe) || { pipe: event.pipe, to: pipe.to, count: 0 };
      one.count += 1;
      events.set(event.pipe, one);
    }
    if (events.size) waiting.set(step, [...events.values()]);
  }
  return waiting;
}
const keyOf = (event) => event.pipe + ' ' + event.stream + ' ' + event.number;

function waitingParts({ pipe, count }, from, to, y) {
  // A pipe from a node to itself ends beside the node's line.
  const end = from === to ? from + 40 : to + (to > from ? -8 : 8);
  const words = count > 1 ? count + ' wait' : 'waits';
  return [draw('path', { class: 'wire waits', d: `M${from} ${y}H${end}` }, draw('title', null, pipe + ': ' + words)),
    draw('text', { x: end, y: y + 13, class: 'small', 'text-anchor': to > from ? 'end' : 'start' }, '… ' + words)];
}

const versionOf = (step, version) => step.node + ' ' + version;

// Draws an arrow from the step that started an effect to the step that took the effect's event, or from above if the
// starting step is not shown.
function effectPart(step, x, start, y) {
  const from = start === undefined ? 22 : start;
  return draw('path', { class: 'wire effect', 'marker-end': 'url(#tip)', 'data-effect': step.effect,
    d: start === undefined ? `M${x - 14} ${Math.max(from, y - 20)}V${y - 8}Q${x - 14} ${y} ${x - 5} ${y}`
      : `M${x - 4} ${from}Q${x - 14} ${from} ${x - 14} ${from + 8}V${y - 8}Q${x - 14} ${y} ${x - 5} ${y}` },
  draw('title', null, step.node + ': an effect of version ' + step.effect + ' gave the event' +
    (start === undefined ? ', before the first shown step' : '')));
}

function stepParts(step, x, y, sentAt) {
  if (step.is === 'life') {
    return [draw('path', { class: 'wire gone', d: `M${x - 60} ${y}H${x + 60}` }),
      draw('text', { x: x + 6, y: y - 3, class: 'small' }, (step.running ? '▷ ' : step.again ? '↻ began again: ' : '✖ ') + step.phase)];
  }
  const parts = [];
  const source = step.source && sentAt.get(keyOf(step.source));
  const isRefused = step.refused !== undefined;
  if (source) {
    parts.push(draw('path', { class: isRefused ? 'wire refused' : 'wire', 'marker-end': 'url(#tip)',
      d: `M${source.x} ${source.y}L${x} ${y}` }, draw('title', null, step.source.pipe)));
  }
  const event = step.event === undefined ? step.cause || '' : short(step.event, 22);
  // Place the text where no arrow enters or leaves, or inside the bar.
  const line = step.transaction ? y + 4 : source && source.x > x ? y + 13 : y - 4;
  if (isRefused) {
    const words = event + (step.postponed ? ' postponed' : ' refused');
    const reason = String(step.refused).replace(/^refused: /, '');
    parts.push(draw('path', { class: 'wire refused', d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` }),
      draw('text', { x: x + 8, y: line, class: 'small alert' }, words + ': ' + short(reason, 24),
        draw('title', null, step.node + ' in ' + stateText(step.state) + ': ' + stateText(step.event) + ' (' +
          (step.cause || '') + '): ' + reason)));
    return parts;
  }
  parts.push(draw('circle', { class: 'box', cx: x, cy: y, r: 4 }),
    draw('text', { x: x + 8, y: line, class: 'small' }, event + ' → ' + short(step.state, 18),
      draw('title', null, step.node + ': ' + stateText(step.from) + ' — ' + stateText(step.event) + ' → ' +
        stateText(step.state) + ' (' + (step.cause || '') + ')')));
  return parts;
}
