'use strict';
// The sequence chart: a line down for each node, a row for each step, an arrow from who sent its event, or from
// the step that started the effect which gave it. Steps of one synchronized event are one row, with a bar over
// those who took part.

const SHOWN = 60;   // Rows.

function sequenceRows() {
  // A composite moves with its nodes: its own steps are shown where it is chosen.
  const composites = new Set(model.topology.nodes.filter((node) => node.kind === 'composite' &&
    node.name !== model.chosen).map((node) => node.name));
  // Nodes that a changed file has no more have no line.
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
  for (let index = steps.length - 1; index >= 0 && rows.length < SHOWN; index -= 1) {
    const step = steps[index];
    const row = step.transaction && rows.find((one) => one.transaction === id(step));
    if (row) row.steps.push(step);
    else rows.push({ steps: [step], transaction: step.transaction ? id(step) : null });
  }
  return rows.reverse();
}
const id = (step) => typeof step.transaction === 'string' ? step.transaction : JSON.stringify(step.transaction);

let charted = null;   // What is drawn.

function showChart() {
  const rows = sequenceRows();
  const used = new Set(rows.flatMap((row) => row.steps.map((step) => step.node)));
  const names = model.topology.nodes.map((node) => node.name).filter((name) => used.has(name));
  const sign = JSON.stringify([names, rows.map((row) => row.steps.map((step) => step.id))]);
  if (sign === charted) return;
  charted = sign;
  const [left, wide, high, top] = [90, 170, 30, 30];
  const column = new Map(names.map((name, index) => [name, left + wide / 2 + index * wide]));
  const svg = draw('svg', { width: left + names.length * wide + 180, height: top + rows.length * high + 30,
    role: 'img', 'aria-label': 'The last ' + rows.length + ' steps' });
  const floor = top + rows.length * high + 6;
  for (const name of names) {
    // The end is what is looked at mostly.
    for (const y of [16, floor + 16]) {
      svg.append(draw('text', { x: column.get(name), y, 'text-anchor': 'middle' }, short(name, 20)));
    }
    svg.append(draw('path', { class: 'wire', d: `M${column.get(name)} 22V${floor}` }));
  }
  const sentAt = new Map();
  rows.forEach((row, index) => {
    const y = top + index * high + high / 2;
    for (const step of row.steps) for (const event of step.sent || []) {
      sentAt.set(event.pipe + ' ' + event.stream + ' ' + event.number, { x: column.get(step.node), y });
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
      svg.append(...stepParts(step, x, y, sentAt));
      if (step.version !== undefined) enteredAt.set(versionOf(step, step.version), y);
    }
  });
  const box = byId('chart');
  const isAtEnd = isAtFloor(box);
  put(box, rows.length ? svg : make('p', null, 'No step was seen yet.'));
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

const versionOf = (step, version) => step.node + ' ' + version;

// From the step that started an effect to the one that took its event, beside the node's line; from the top where
// the former is not shown.
function effectPart(step, x, start, y) {
  const from = start === undefined ? 22 : start;
  return draw('path', { class: 'wire effect', 'marker-end': 'url(#tip)', 'data-effect': step.effect,
    d: start === undefined ? `M${x - 14} ${Math.max(from, y - 20)}V${y - 8}Q${x - 14} ${y} ${x - 5} ${y}`
      : `M${x - 4} ${from}Q${x - 14} ${from} ${x - 14} ${from + 8}V${y - 8}Q${x - 14} ${y} ${x - 5} ${y}` },
  draw('title', null, step.node + ': an effect of version ' + step.effect + ' gave the event' +
    (start === undefined ? ', before what is shown' : '')));
}

function stepParts(step, x, y, sentAt) {
  if (step.is === 'life') {
    return [draw('path', { class: 'wire gone', d: `M${x - 60} ${y}H${x + 60}` }),
      draw('text', { x: x + 6, y: y - 3, class: 'small' }, (step.running ? '▷ ' : step.again ? '↻ began again: ' : '✖ ') + step.phase)];
  }
  const parts = [];
  const source = step.source &&
    sentAt.get(step.source.pipe + ' ' + step.source.stream + ' ' + step.source.number);
  if (source) {
    parts.push(draw('path', { class: 'wire', 'marker-end': 'url(#tip)', d: `M${source.x} ${source.y}L${x} ${y}` },
      draw('title', null, step.source.pipe)));
  }
  const event = step.event === undefined ? step.cause || '' : short(step.event, 22);
  // Arrows come from above and go on below: what is told stands where none is, or in the bar.
  const line = step.transaction ? y + 4 : source && source.x > x ? y + 13 : y - 4;
  parts.push(draw('circle', { class: 'box', cx: x, cy: y, r: 4 }),
    draw('text', { x: x + 8, y: line, class: 'small' }, event + ' → ' + short(step.state, 18),
      draw('title', null, step.node + ': ' + stateText(step.from) + ' — ' + stateText(step.event) + ' → ' +
        stateText(step.state) + ' (' + (step.cause || '') + ')')));
  return parts;
}
