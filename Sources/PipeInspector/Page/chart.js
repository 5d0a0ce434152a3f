'use strict';
// The sequence chart: a line down for each node, a row for each step, an arrow from who sent its event. Steps
// of one synchronized event are one row, with a bar over those who took part.

function sequenceRows() {
  // A composite moves with its nodes: its own steps are shown where it is chosen.
  const composites = new Set(model.topology.nodes.filter((node) => node.kind === 'composite' &&
    node.name !== model.chosen).map((node) => node.name));
  let steps = visibleSteps().filter((step) => !composites.has(step.node));
  if (byId('only').checked && model.chosen) {
    const mine = new Set();
    for (const step of steps) if (step.node === model.chosen && step.transaction) mine.add(id(step));
    steps = steps.filter((step) => step.node === model.chosen || (step.transaction && mine.has(id(step))) ||
      (step.sent || []).some((event) => reaches(event, model.chosen)));
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
const reaches = (event, name) =>
  model.topology.pipes.some((pipe) => pipe.name === event.pipe && pipe.to === name);

function showChart() {
  const rows = sequenceRows();
  const used = new Set(rows.flatMap((row) => row.steps.map((step) => step.node)));
  const names = model.topology.nodes.map((node) => node.name).filter((name) => used.has(name));
  const [left, wide, high, top] = [104, 150, 26, 30];
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
  rows.forEach((row, index) => {
    const y = top + index * high + high / 2;
    svg.append(draw('text', { x: 2, y: y + 4, class: 'small' }, clock(row.steps[0].time)));
    const places = row.steps.map((step) => column.get(step.node));
    if (row.transaction) {
      const [from, to] = [Math.min(...places), Math.max(...places)];
      svg.append(draw('rect', { class: 'bar', x: from - 10, y: y - 9, width: to - from + 20, height: 18, rx: 4 },
        draw('title', null, 'together: ' + row.steps.map((step) => step.node).join(', '))));
    }
    for (const step of row.steps) svg.append(...stepParts(step, column.get(step.node), y, sentAt));
  });
  const box = byId('chart');
  const isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 30;
  put(box, rows.length ? svg : make('p', null, 'No step was seen yet.'));
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

function stepParts(step, x, y, sentAt) {
  if (step.is === 'life') {
    return [draw('path', { class: 'wire gone', d: `M${x - 60} ${y}H${x + 60}` }),
      draw('text', { x: x + 6, y: y - 3, class: 'small' }, '✖ ' + (step.again ? 'began again: ' : '') + step.phase)];
  }
  const parts = [];
  const source = step.source &&
    sentAt.get(step.source.pipe + ' ' + step.source.stream + ' ' + step.source.number);
  if (source) {
    parts.push(draw('path', { class: 'wire', 'marker-end': 'url(#tip)', d: `M${source.x} ${source.y}L${x} ${y}` },
      draw('title', null, step.source.pipe)));
  }
  const event = step.event === undefined ? step.cause || '' : short(step.event, 22);
  parts.push(draw('circle', { class: 'box', cx: x, cy: y, r: 4 }),
    draw('text', { x: x + 8, y: y + 4, class: 'small' }, event + ' → ' + short(step.state, 18),
      draw('title', null, step.node + ': ' + stateText(step.from) + ' — ' + stateText(step.event) + ' → ' +
        stateText(step.state) + ' (' + (step.cause || '') + ')')));
  return parts;
}
