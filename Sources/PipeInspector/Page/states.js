'use strict';
// The state chart of the selected node: the transitions that its machine can make, and which of them were seen.

const charts = new Map();   // For each node and process: its chart, or { error }.
const LABEL = 26;           // The maximum length of the text of a transition. Unit: characters.
const DOUBTS = { dependsOnValues: 'by values', asynchronous: 'asynchronous', noSample: 'no value to try', noAnswer: 'no answer' };

let chartPicture = null;    // The drawn chart: { request, layout, … }.

function fetchChart() {
  const node = model.latest && model.latest.nodes.find((one) => one.name === model.chosen);
  if (!node || node.kind !== 'machine') return;
  const key = node.name + ' ' + node.incarnation;
  if (charts.has(key)) { model.chart = charts.get(key); return; }
  const keep = (chart) => {
    charts.set(key, chart);
    if (model.chosen === node.name) { model.chart = chart; show(); }
  };
  model.chart = { isLoading: true };
  ask('/api/chart?node=' + encodeURIComponent(node.name)).then(keep, (error) => {
    // Without the chart, the page shows the names of the states and the seen transitions.
    ask('/api/machine?node=' + encodeURIComponent(node.name)).then((machine) => keep({ error: error.message, notes: [], transitions: [],
      states: machine.states.map((one) => ({ name: one.name, fields: [], isReached: true })) }), () => {
      // Without the topology, only the recorded steps are known.
      const names = [...new Set(model.steps.filter((step) => step.node === node.name && isStep(step))
        .flatMap((step) => [caseName(step.from), caseName(step.state)]))].filter((name) => name);
      keep({ error: error.message, notes: [], transitions: [], states: names.map((name) => ({ name, fields: [], isReached: true })) });
    });
  });
}

// Returns the transitions that the node has made until the shown instant.
function seenTransitions(name) {
  const seen = new Map();
  let last = null;
  for (const step of visibleSteps()) {
    if (step.node !== name || !isStep(step) || step.from === undefined) continue;
    const [from, to] = [caseName(step.from), caseName(step.state)];
    const event = caseName(step.event) || step.cause || '?';
    const key = [from, event, to].join('\n');
    last = seen.get(key) || { from, event, to, count: 0, isLast: false };
    last.count += 1;
    last.step = step;
    seen.set(key, last);
  }
  if (last) last.isLast = true;
  return seen;
}

// Joins the possible and the seen transitions: [{ from, to, event, count, guard, isLast }].
function allTransitions(chart, seen) {
  const known = new Set(chart.states.map((state) => state.name));
  const rest = new Map(seen);
  const found = [];
  for (const one of chart.transitions) {
    if (one.kind !== 'external') continue;
    const to = one.to === null || one.to === undefined ? one.from + ' ?' : one.to;
    // A step of a timer has no event. So the key of the step contains its cause, which names the
    // timer.
    const key = [one.from, one.event, to].join('\n');
    const made = rest.get(key);
    rest.delete(key);
    found.push({ from: one.from, to, event: one.event, guard: one.isGuarded ? 'guard' : DOUBTS[one.doubt] || '', isPossible: true,
      count: made ? made.count : 0, isLast: Boolean(made && made.isLast), step: made && made.step });
  }
  for (const one of rest.values()) {
    if (!known.has(one.from) || !known.has(one.to)) continue;
    // Internal transitions are listed in the box of their state.
    if (one.from === one.to && chart.transitions.some((other) => other.from === one.from && other.event === one.event && other.kind !== 'external')) continue;
    found.push({ ...one, guard: '', isPossible: false });
  }
  return found;
}

function chartParts(name, state) {
  const chart = model.chart;
  if (!chart) return [];
  if (chart.isLoading || !chart.states || !chart.states.length) {
    return [{ key: 'chart', signature: String(chart.error), build: () => make('div', null, make('h3', null, 'State chart'),
      make('div', { class: 'scroll statechart' }, make('p', { class: 'empty' }, chart.error || 'Asking the program for its transitions…'))) }];
  }
  // For a node with a `key`, the state is the number of instances in each state.
  const isCount = isObject(state.state) && Object.values(state.state).every((one) => typeof one === 'number');
  const now = isCount ? null : caseName(state.state) || state.case;
  const seen = seenTransitions(name);
  const transitions = allTransitions(chart, seen);
  const holder = chartHolder(name);
  drawChart(holder, name, chart, transitions, now);
  const notes = [...(chart.error ? ['Only seen transitions: ' + chart.error] : []), ...chart.notes];
  return [{ key: 'chart', signature: name + notes.join() + isEnlarged, build: () => make('div', null, make('h3', { class: 'title' }, 'State chart',
    make('button', { type: 'button', 'data-key': 'enlarge', 'aria-pressed': String(isEnlarged), onclick: () => enlarge(!isEnlarged) }, 'Enlarge')), holder,
    make('p', { class: 'legend' }, make('span', null, '━ seen, with the count'), make('span', null, '┄ possible'), make('span', null, '[guard] decides by values')),
    ...notes.map((note) => make('p', { class: 'hint' }, note))) }];
}

// An enlarged chart has the width of the page.
let isEnlarged = false;
function enlarge(isWanted) {
  isEnlarged = isWanted;
  document.body.classList.toggle('enlarged', isEnlarged);
  show();
  const holder = document.querySelector('.statechart');
  if (holder) holder.scrollIntoView({ block: 'nearest' });
}

const holders = new Map();
function chartHolder(name) {
  if (!holders.has(name)) {
    holders.clear();
    chartPicture = null;
    holders.set(name, make('div', { class: 'scroll statechart', tabindex: 0, role: 'group', 'aria-label': 'State chart', 'data-key': 'states' }));
  }
  return holders.get(name);
}

// The lines in the box of a state: its values, and the events that do not leave the state.
function stateLines(chart, state) {
  const own = chart.transitions.filter((one) => one.from === state.name);
  const ignored = own.filter((one) => one.kind === 'ignored').map((one) => one.event);
  return [...state.fields, ...own.filter((one) => one.kind === 'internal').map((one) => one.event + ' / stay'),
    ...(ignored.length ? ['ignore: ' + ignored.join(', ')] : [])].map((line) => short(line, 24)).slice(0, 6);
}

function drawChart(holder, name, chart, transitions, now) {
  const unknown = [...new Set(transitions.filter((one) => one.to.endsWith(' ?')).map((one) => one.to))];
  const boxes = chart.states.slice(0, 40).map((state) => ({ ...state, lines: stateLines(chart, state) }))
    .concat(unknown.map((one) => ({ name: one, fields: [], lines: [], isUnknown: true })));
  const names = new Set(boxes.map((box) => box.name));
  const wires = new Map();
  for (const one of transitions) {
    if (!names.has(one.from) || !names.has(one.to)) continue;
    const key = one.from + '\n\n' + one.to;
    if (!wires.has(key)) wires.set(key, []);
    wires.get(key).push(one);
  }
  const length = (wire) => Math.min(LABEL + 6, Math.max(...wire.map((one) => (one.event + (one.guard ? ' [' + one.guard + ']' : '')).length)) + 6);
  const request = JSON.stringify({ direction: 'down', length: isEnlarged ? 120 : 48,
    boxes: boxes.map((box) => ({ name: box.name, width: Math.max(8, ...[box.name + (box.isUnknown ? '' : '  '), ...box.lines].map((line) => line.length)),
      height: 1 + box.lines.length })),
    composites: [], wires: [...wires.values()].map((wire) => ({ from: wire[0].from, to: wire[0].to, isPart: false, label: length(wire), lines: Math.min(12, wire.length) })) });
  const layout = layouts.get(request);
  if (!layout) { fetchLayout(request); if (!chartPicture) put(holder, make('p', { class: 'empty' }, 'Drawing…')); return; }
  if (!chartPicture || chartPicture.request !== request) {
    chartPicture = { request, ...canvas(layout) };
    chartPicture.svg.setAttribute('aria-label', 'States of ' + name);
    put(holder, chartPicture.svg);
  }
  const scale = Math.max(.6, Math.min(isEnlarged ? 1.3 : 1, (sizeOf(holder).width - 8) / chartPicture.width, (sizeOf(holder).height - 8) / chartPicture.height) || 1);
  chartPicture.svg.setAttribute('width', Math.round(chartPicture.width * scale));
  chartPicture.svg.setAttribute('height', Math.round(chartPicture.height * scale));
  const ofLine = (line) => wires.get(line.from + '\n\n' + line.to) || [];
  putRows(chartPicture.lines, layout.wires.map((line, index) => {
    const wire = ofLine(line);
    const style = wire.some((one) => one.isLast) ? 'wire taken' : wire.some((one) => one.count) ? 'wire seen' : 'wire possible';
    return { key: index, signature: style, build: () => transitionLine(line, style) };
  }));
  putRows(chartPicture.labels, layout.wires.flatMap((line, index) => {
    const wire = ofLine(line);
    return line.label ? [{ key: index, signature: JSON.stringify(wire.map((one) => [one.count, one.isLast, one.guard])),
      build: () => transitionLabel(line, wire) }] : [];
  }));
  putRows(chartPicture.shapes, layout.boxes.map((place) => {
    const box = boxes.find((one) => one.name === place.name);
    const hue = box.isUnknown ? null : hueOf(name, box.name);
    return { key: place.name, signature: [box.name === now, hue].join(), build: () => stateBox(place, box, chart, box.name === now, hue) };
  }));
}

function transitionLine(line, style) {
  const points = wirePoints(line);
  return points.length ? draw('path', { class: style, d: roundedPath(points), 'marker-end': style.includes('taken') ? 'url(#tip-lit)' : 'url(#tip)' }) : draw('g');
}

function transitionLabel({ label: [x, y, width, rows], points }, wire) {
  // A text at the left of its line is aligned to the right, so that the text ends beside the line.
  const isLeft = points.some((one, index) => index % 2 === 0 && one > x + width && one <= x + width + 4) &&
    !points.some((one, index) => index % 2 === 0 && one < x && one >= x - 4);
  const text = (one) => short(one.event, LABEL) + (one.guard ? ' [' + one.guard + ']' : '') + (one.count ? ' ×' + one.count : '');
  const lines = rows > 1 ? wire.slice(0, rows).map((one) => [one]) : [wire];
  return draw('g', { class: 'label' }, ...lines.flatMap((line, index) => {
    const words = line.map(text).join(', ');
    const shown = Math.min(words.length * 7 + 8, Math.max(width * HALF.x, 40));
    const style = line.some((one) => one.isLast) ? 'taken' : line.some((one) => one.count) ? '' : 'possible';
    const top = (y + 2 * index) * HALF.y;
    const left = isLeft ? (x + width) * HALF.x - shown + 2 : x * HALF.x - 2;
    return [draw('rect', { x: left, y: top, width: shown, height: 2 * HALF.y, rx: 3 }),
      draw('text', { x: isLeft ? left + shown - 4 : left + 4, y: top + HALF.y + 4, class: style, 'text-anchor': isLeft ? 'end' : 'start' },
        short(words, Math.max(6, Math.floor(shown / 6))))];
  }));
}

function stateBox(place, box, chart, isNow, hue) {
  const { x, y, width, height } = area(place);
  const isInitial = box.name === chart.initial;
  const words = [box.name, isNow ? 'now' : '', isInitial ? 'initial' : '', box.isEnd ? 'end' : '', box.isReached === false ? 'not met' : ''].filter((one) => one);
  return draw('g', { class: 'state' + (isNow ? ' now' : '') + (box.isReached === false ? ' unmet' : '') + (hue === null ? '' : ' hue' + hue) },
    draw('title', null, words.join(', ')),
    draw('rect', { class: 'box', x, y, width, height, rx: 10 }),
    box.isEnd ? draw('rect', { class: 'inner', x: x + 3, y: y + 3, width: width - 6, height: height - 6, rx: 8 }) : null,
    isInitial ? draw('circle', { class: 'initial', cx: x + 10, cy: y + 10, r: 4 }) : null,
    draw('text', { x: x + width / 2, y: y + (box.lines.length ? 20 : height / 2 + 4), 'text-anchor': 'middle', class: 'name' }, box.isUnknown ? '?' : (isNow ? '● ' : '') + short(box.name, 24)),
    ...box.lines.map((line, index) => draw('text', { x: x + width / 2, y: y + 35 + index * 14, 'text-anchor': 'middle', class: 'small' }, line)));
}

// A composite shows the states of its components.
function componentParts(node, states) {
  const composite = (model.topology.composites || []).find((one) => one.name === node.name);
  if (!composite) return [];
  const rows = composite.nodes.map((name) => ({ name, text: stateOf(states.get(name) || {}, 80), ...(model.conditions.get(name) || { words: [], style: 'well' }) }));
  return [{ key: 'components', signature: JSON.stringify(rows), build: () => make('div', null, make('h3', null, 'Components'),
    make('table', null, make('tbody', null, ...rows.map((row) => make('tr', null,
      make('td', null, make('button', { type: 'button', class: 'plain', 'data-key': 'c' + row.name, onclick: () => choose(row.name) }, row.name)),
      make('td', { class: 'code' }, row.text), make('td', { class: 'life ' + row.style }, row.words.join(', '))))))) }];
}
