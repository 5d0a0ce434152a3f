'use strict';
// The timeline: a lane for each node with the states that the node had, and marks for what went
// wrong. The timeline sets the instant that the entire page shows.

const LANE_HEIGHT = 22;
const AXIS = 20;             // The height of the times above the lanes. Unit: pixels.
const WINDOW = 60e9;         // The time that the timeline shows at first. Unit: nanoseconds.
const LEAST_WINDOW = 2e7;
const HUES = 8;              // The number of colors for states.

let range = null;            // { from, to }: the part that the user has selected; `null` follows the present.
let player = null;           // The timer that plays the past, and the time of its last turn.
let drawnRange = null;       // The drawn part, with the geometry of the canvas.
const hues = new Map();      // For each machine, the color of each state.
let machines = new Map();    // For each node, its machine.

const MARKS = {
  ended: { sign: '✖', color: 'failed', words: 'ended or killed' },
  started: { sign: '▶', color: 'well', words: 'started again' },
  refused: { sign: '×', color: 'blocked', words: 'event refused' },
  letter: { sign: '◆', color: 'letters', words: 'dead letter' },
  takeover: { sign: '┃', color: 'doubt', words: 'a new orchestrator took over' },
};

// The color of a state is the same in the timeline, in the state chart and in the table of nodes.
function hueOf(name, state) {
  if (state === null || state === undefined) return null;
  const machine = machines.get(name) || name;
  if (!hues.has(machine)) hues.set(machine, new Map());
  const known = hues.get(machine);
  if (!known.has(state)) known.set(state, known.size % HUES);
  return known.get(state);
}

// Returns the part of time that the timeline shows.
function shownRange() {
  if (range) return range;
  const first = firstInstant();
  const to = Math.max(model.time, first + LEAST_WINDOW);
  const from = first - (to - first) * .02;
  return { from: recordedRun() ? from : Math.max(from, to - WINDOW), to };
}
function firstInstant() {
  const step = model.steps.find((one) => one.time);
  return step ? step.time : model.topologies.length ? model.topologies[0].time : model.time - WINDOW;
}

// The lane of each node: { spans, marks, ticks }. `spans` are the node's states as [{ from, to,
// name, words, kind }]; `kind` is `state`, `down` for a node that does not run, or `gap` for a time
// about which nothing is known. `ticks` are the times of steps of instances, which are not states
// of the node. Lanes grow with each step.
const book = new Map();

function forgetLanes() { book.clear(); }

function addSpan(lane, time, span) {
  const last = lane.spans[lane.spans.length - 1];
  if (last && last.to === null) last.to = time;
  if (last && last.from === time && last.kind !== 'down') lane.spans.pop();
  lane.spans.push({ from: time, to: null, ...span });
}

function spanOf(step, value, large) {
  const name = caseName(value) || step.case || (value === undefined ? null : 'state');
  return { kind: name === null ? 'gap' : 'state', name, state: value, large };
}

function addToLane(step) {
  if (!step.time) return;
  if (!book.has(step.node)) book.set(step.node, { spans: [], marks: [], ticks: [], time: 0 });
  const lane = book.get(step.node);
  // The steps of a node arrive in order, unless the clock of its host was set back.
  if (step.time < lane.time) lane.isUnsorted = true;
  lane.time = step.time;
  if (step.is === 'life') addLife(lane, step);
  else if (step.refused !== undefined) lane.marks.push({ time: step.time, kind: 'refused', words: () => stepSentence(step), step });
  else if (step.instance) lane.ticks.push(step.time);
  else {
    // Steps of a process have consecutive indices. Where an index is missing, the states are
    // unknown.
    const isGap = lane.index !== undefined && step.index !== undefined && lane.incarnation === step.incarnation && step.index > lane.index + 1;
    const last = lane.spans[lane.spans.length - 1];
    if (isGap && last && last.to === null && last.kind === 'state') last.kind = 'gap';
    addSpan(lane, step.time, { ...spanOf(step, step.state), step });
    if (step.index !== undefined) [lane.index, lane.incarnation] = [step.index, step.incarnation];
  }
}

function addLife(lane, step) {
  // The process was replaced between two reads of the nodes' status.
  if (step.again && step.running) lane.marks.push({ time: step.time, kind: 'ended', words: () => step.node + ': ended' });
  lane.marks.push({ time: step.time, kind: step.running ? 'started' : 'ended', words: () => step.node + ': ' + step.phase +
    (step.reason ? ', ' + step.reason : '') });
  const last = lane.spans.findLast((span) => span.kind === 'state');
  if (!step.running) addSpan(lane, step.time, { kind: 'down', name: step.phase });
  else addSpan(lane, step.time, last ? { ...last, to: null, from: step.time } : { kind: 'gap' });
}

// Forgets the beginning of the lanes, whose steps are no longer in memory.
function cutLanes(removed) {
  const first = model.steps.length ? model.steps[0].time : 0;
  for (const name of new Set(removed.map((step) => step.node))) {
    const lane = book.get(name);
    if (!lane) continue;
    while (lane.spans.length > 1 && lane.spans[1].from < first) lane.spans.shift();
    while (lane.marks.length && lane.marks[0].time < first) lane.marks.shift();
    while (lane.ticks.length && lane.ticks[0] < first) lane.ticks.shift();
  }
}

// Returns the lanes of the shown nodes.
function timelineLanes() {
  if ([...book.values()].some((lane) => lane.isUnsorted)) {
    forgetLanes();
    for (const step of model.steps) addToLane(step);
    for (const lane of book.values()) lane.isUnsorted = false;
  }
  return timelineNodes().map((node) => {
    const known = book.get(node.name) || { spans: [], marks: [], ticks: [] };
    const lane = { node, spans: known.spans, ticks: known.ticks, marks: known.marks.concat(letterMarks(node.name)) };
    // If a node has taken no step since the page was opened, its current state began at the time
    // that the node reports.
    const state = model.states.get(node.name);
    if (state && state.time && !lane.spans.some((span) => span.kind === 'state')) {
      lane.spans = [{ from: state.time, to: lane.spans.length ? lane.spans[0].from : null, ...spanOf(state, state.state) }, ...lane.spans];
    }
    if (!node.running && (!lane.spans.length || lane.spans[lane.spans.length - 1].kind !== 'down')) {
      lane.spans = lane.spans.map((span) => ({ ...span }));
      addSpan(lane, model.topologies.length ? model.topologies[0].time : model.time, { kind: 'down', name: node.phase });
    }
    return lane;
  });
}

function timelineNodes() {
  const nodes = model.latest.nodes.filter((node) => node.kind !== 'constant' && node.kind !== 'monitor');
  const shown = followed ? nodes.filter((node) => followed.nodes.has(node.name)) : nodes;
  return shown.slice(0, MAX_BOXES);
}

function letterMarks(name) {
  const marks = [];
  let former = null;
  for (const { time, state } of model.samples.get(name) || []) {
    const count = state.counts ? state.counts.deadLetters : former;
    if (former !== null && count > former) marks.push({ time, kind: 'letter', words: () => name + ': ' + counted(count, 'dead letter') });
    former = count;
  }
  return marks;
}

function showTimeline() {
  const lanes = timelineLanes();
  const height = AXIS + Math.max(1, lanes.length) * LANE_HEIGHT;
  const shown = shownRange();
  const slider = byId('slider');
  byId('lanes').style.height = height + 'px';
  putRows(byId('heads'), lanes.map(({ node }, index) => ({ key: node.name, signature: index + String(node.name === model.chosen), build: () => {
    const head = make('button', { type: 'button', 'data-key': 'l' + node.name, title: node.name,
      'aria-pressed': node.name === model.chosen ? 'true' : 'false', onclick: () => choose(node.name) }, node.name);
    head.style.top = AXIS + index * LANE_HEIGHT + 'px';
    return head;
  } })));
  const steps = model.steps;
  const position = model.at === null ? steps.length : indexBefore(model.at) + 1;
  slider.setAttribute('aria-valuemax', steps.length);
  slider.setAttribute('aria-valuenow', position);
  slider.setAttribute('aria-valuetext', model.at === null ? presentWord() : clock(model.at) + ', step ' + position + ' of ' + steps.length);
  drawSpans(lanes, shown, height);
  byId('narrow').disabled = shown.to - shown.from <= LEAST_WINDOW;
  byId('minute').setAttribute('aria-pressed', range === null ? 'true' : 'false');
}

// Drawing

let theme = null;   // The colors of the style sheet for the canvas.

function themeColors() {
  if (theme) return theme;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue('--' + name).trim();
  theme = { font: '11px ' + getComputedStyle(document.body).fontFamily, hues: [] };
  for (const name of ['fg', 'bg', 'soft', 'line', 'dim', 'mark', 'failed', 'blocked', 'letters', 'doubt', 'well']) theme[name] = read(name);
  for (let hue = 0; hue < HUES; hue += 1) theme.hues.push(read('hue' + hue));
  theme.hatch = hatching(theme.line);
  return theme;
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { theme = null; show(); });

function drawSpans(lanes, { from, to }, height) {
  const canvas = byId('spans');
  const { width } = sizeOf(byId('slider'));
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
  }
  const colors = themeColors();
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = colors.font;
  context.textBaseline = 'middle';
  const x = (time) => (time - from) / (to - from) * width;
  drawnRange = { from, to, width, lanes, height };
  drawAxis(context, colors, from, to, width, height, x);
  // Only the lanes that are scrolled into view are drawn.
  const box = sizeOf(byId('timebox'));
  const [top, bottom] = [lanesTop - LANE_HEIGHT, lanesTop + box.height];
  const seen = lanes.map((lane, index) => ({ lane, top: AXIS + index * LANE_HEIGHT + 2 })).filter((one) => one.top >= top && one.top <= bottom)
    .map((one) => ({ ...one, spans: spansWithin(one.lane.spans, from, to) }));
  fillStates(context, colors, seen, x, to, width);
  for (const { lane, spans, top } of seen) {
    const first = lane.spans.length ? lane.spans[0].from : to;
    drawUnknown(context, colors, 0, Math.min(width, x(first)), top);
    for (const span of spans) drawSpan(context, colors, span, x(span.from), x(span.to === null ? to : span.to), top, width);
    context.fillStyle = colors.mark;
    for (const time of lane.ticks) if (time >= from && time <= to) context.fillRect(x(time), top + LANE_HEIGHT - 9, 1, 5);
    for (const mark of lane.marks) {
      const place = x(mark.time);
      if (place < 0 || place > width) continue;
      if (mark.kind === 'ended' || mark.kind === 'started') {
        context.fillStyle = colors[MARKS[mark.kind].color];
        context.fillRect(place - 1, top - 1, 2, LANE_HEIGHT - 2);
      }
      badge(context, colors, MARKS[mark.kind], place, top + (mark.kind === 'refused' || mark.kind === 'letter' ? 13 : 5));
    }
  }
  context.fillStyle = colors.doubt;
  for (const { time } of model.takeovers) if (time >= from && time <= to) context.fillRect(x(time) - 1, AXIS, 2, height - AXIS);
  if (model.at !== null) {
    context.fillStyle = colors.fg;
    context.fillRect(x(model.at) - 1, 0, 2, height);
    context.beginPath();
    context.moveTo(x(model.at) - 6, 0);
    context.lineTo(x(model.at) + 6, 0);
    context.lineTo(x(model.at), 8);
    context.fill();
  }
}

let lanesTop = 0;   // How far the lanes are scrolled. Unit: pixels.
byId('timebox').addEventListener('scroll', () => {
  lanesTop = byId('timebox').scrollTop;
  if (drawnRange) drawSpans(drawnRange.lanes, drawnRange, drawnRange.height);
});

// Returns the spans in a part of time. Spans are in the order of their times.
function spansWithin(spans, from, to) {
  let first = spans.length;
  while (first > 0 && (spans[first - 1].to === null || spans[first - 1].to >= from)) first -= 1;
  return spans.slice(first).filter((span) => span.from <= to);
}

function badge(context, colors, { sign, color }, x, y) {
  context.textAlign = 'center';
  context.lineWidth = 3;
  context.strokeStyle = colors.bg;
  context.strokeText(sign, x, y);
  context.fillStyle = colors[color];
  context.fillText(sign, x, y);
  context.textAlign = 'left';
}

function drawAxis(context, colors, from, to, width, height, x) {
  const wanted = (to - from) / Math.max(2, width / 110);
  const unit = [1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10, 1.5e10, 3e10, 6e10, 3e11, 6e11, 1.8e12, 3.6e12]
    .find((one) => one >= wanted) || wanted;
  context.fillStyle = colors.dim;
  for (let time = Math.ceil(from / unit) * unit; time < to; time += unit) {
    context.globalAlpha = .25;
    context.fillRect(Math.round(x(time)), AXIS - 6, 1, height);
    context.globalAlpha = 1;
    const words = unit < 1e9 ? clock(time) : clock(time).slice(0, 8);
    if (x(time) + 60 < width) context.fillText(words, x(time) + 3, AXIS / 2);
  }
}

// A pattern of slanted lines.
function hatching(color) {
  const tile = make('canvas', { width: 8, height: 8 });
  const context = tile.getContext('2d');
  context.strokeStyle = color;
  context.globalAlpha = .5;
  for (const left of [-8, 0, 8]) {
    context.moveTo(left, 8);
    context.lineTo(left + 8, 0);
  }
  context.stroke();
  return context.createPattern(tile, 'repeat');
}

function drawUnknown(context, colors, left, right, top) {
  if (right - left < 1) return;
  context.fillStyle = colors.soft;
  context.fillRect(left, top, right - left, LANE_HEIGHT - 4);
  context.fillStyle = colors.hatch;
  context.fillRect(left, top, right - left, LANE_HEIGHT - 4);
  if (right - left > 70) label(context, colors, 'unknown', left, right, top, colors.dim);
}

// Fills the spans of all lanes, one color after another, because a change of the color is slow.
function fillStates(context, colors, lanes, x, to, width) {
  const areas = colors.hues.map(() => []);
  for (const { lane, spans, top } of lanes) {
    for (const span of spans) {
      if (span.kind !== 'state') continue;
      const [left, right] = [Math.max(-4, x(span.from)), Math.min(width + 4, x(span.to === null ? to : span.to))];
      if (right > 0 && left < width) areas[hueOf(lane.node.name, span.name)].push(left, top, Math.max(1, right - left - 1));
    }
  }
  areas.forEach((places, hue) => {
    context.fillStyle = colors.hues[hue];
    context.beginPath();
    for (let index = 0; index < places.length; index += 3) context.rect(places[index], places[index + 1], places[index + 2], LANE_HEIGHT - 4);
    context.fill();
  });
}

function drawSpan(context, colors, span, left, right, top, width) {
  // A short span has no text.
  if (right < 0 || left > width || (span.kind === 'state' && right - left <= 24)) return;
  [left, right] = [Math.max(-4, left), Math.min(width + 4, right)];
  if (span.kind === 'gap') { drawUnknown(context, colors, left, right, top); return; }
  const height = LANE_HEIGHT - 4;
  if (span.kind === 'down') {
    context.fillStyle = colors.bg;
    context.fillRect(left, top, right - left, height);
    context.strokeStyle = colors.failed;
    context.lineWidth = 1.5;
    context.setLineDash([5, 3]);
    context.strokeRect(left + 1, top + 1, Math.max(0, right - left - 2), height - 2);
    context.setLineDash([]);
  }
  if (right - left > 24) label(context, colors, span.kind === 'down' ? span.name : stateText(span.state === undefined ? span.name : span.state), left, right, top, colors.fg);
}

function label(context, colors, words, left, right, top, color) {
  const room = Math.floor((right - Math.max(0, left) - 8) / 6);
  if (room < 2) return;
  context.fillStyle = color;
  context.fillText(words.length > room ? words.slice(0, room - 1) + '…' : words, Math.max(0, left) + 4, top + (LANE_HEIGHT - 4) / 2 + .5);
}

// The instant

// Moves by a number of steps.
function stepBy(count) {
  if (!model.latest || !model.steps.length) return;
  const { steps } = model;
  const index = model.at === null ? steps.length - 1 : indexBefore(model.at);
  let to = index + count;
  // Steps at the same time are one instant.
  while (count < 0 && to > 0 && model.at !== null && steps[to].time === model.at) to -= 1;
  while (count > 0 && to < steps.length && model.at !== null && steps[to].time === model.at) to += 1;
  if (model.at === null && count < 0) to = steps.length - 1 + count + (count === -1 ? 1 : 0);
  if (to >= steps.length) showInstant(null);
  else showInstant(steps[Math.max(0, to)].time);
}

function showInstant(time) {
  model.at = time;
  if (time === null) stopPlaying();
  else if (range && (time < range.from || time > range.to)) {
    const half = (range.to - range.from) / 2;
    range = { from: time - half, to: time + half };
  } else if (!range && model.latest) {
    // The timeline holds still while the user looks at the past.
    const shown = shownRange();
    const span = shown.to - shown.from;
    range = time >= shown.from ? shown : { from: time - span / 4, to: time + span * 3 / 4 };
    isHeldRange = true;
  }
  if (time === null && isHeldRange) { range = null; isHeldRange = false; }
  show();
}
let isHeldRange = false;   // Whether the part was fixed because the user looks at the past.

function setRange(from, to) {
  const span = Math.max(LEAST_WINDOW, to - from);
  range = { from, to: from + span };
  isHeldRange = false;
  show();
}

function zoomTime(factor, place = .5) {
  const { from, to } = shownRange();
  const middle = from + (to - from) * place;
  setRange(middle - (middle - from) * factor, middle + (to - middle) * factor);
}

function play() {
  if (player) { stopPlaying(); show(); return; }
  if (!model.latest) return;
  if (model.at === null) showInstant(Math.max(shownRange().from, firstInstant()));
  player = { last: performance.now(), timer: setInterval(() => {
    const time = performance.now();
    const next = model.at + (time - player.last) * 1e6 * Number(byId('speed').value);
    player.last = time;
    for (const step of model.steps.slice(indexBefore(model.at) + 1, indexBefore(next) + 1)) notePulses(step);
    showInstant(next >= model.time ? null : next);
  }, 50) };
  showPlaying();
}
function stopPlaying() {
  if (player) clearInterval(player.timer);
  player = null;
  showPlaying();
}
function showPlaying() {
  byId('play').setAttribute('aria-pressed', player ? 'true' : 'false');
  byId('play').textContent = player ? 'Pause' : 'Play';
}

byId('play').addEventListener('click', play);
byId('back').addEventListener('click', () => stepBy(-1));
byId('ahead').addEventListener('click', () => stepBy(1));
byId('live').addEventListener('click', () => showInstant(null));
byId('all').addEventListener('click', () => { const first = firstInstant(); setRange(first - (model.time - first) * .02, model.time); });
byId('minute').addEventListener('click', () => { range = null; isHeldRange = false; show(); });
byId('narrow').addEventListener('click', () => zoomTime(.5));
byId('widen').addEventListener('click', () => zoomTime(2));
byId('slider').addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const act = { ArrowLeft: () => stepBy(-1), ArrowDown: () => stepBy(-1), ArrowRight: () => stepBy(1), ArrowUp: () => stepBy(1),
    PageDown: () => stepBy(10), PageUp: () => stepBy(-10), Home: () => model.steps.length && showInstant(model.steps[0].time),
    End: () => showInstant(null), '+': () => zoomTime(.5), '-': () => zoomTime(2), ' ': play }[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
});

// Dragging selects a part of time; a click selects an instant.
let brush = null;
const timeAt = (x) => drawnRange.from + x / drawnRange.width * (drawnRange.to - drawnRange.from);
const placeOf = (event) => Math.max(0, Math.min(drawnRange.width, event.clientX - byId('slider').getBoundingClientRect().left));

byId('slider').addEventListener('pointerdown', (event) => {
  if (event.button !== 0 || !drawnRange) return;
  brush = { start: placeOf(event) };
  byId('slider').setPointerCapture(event.pointerId);
});
byId('slider').addEventListener('pointermove', (event) => {
  if (!drawnRange) return;
  const x = placeOf(event);
  pointAt(x, event.clientY - byId('slider').getBoundingClientRect().top);
  if (!brush || (Math.abs(x - brush.start) < 5 && byId('brush').hidden)) return;
  byId('brush').hidden = false;
  byId('brush').style.left = Math.min(x, brush.start) + 'px';
  byId('brush').style.width = Math.abs(x - brush.start) + 'px';
});
byId('slider').addEventListener('pointerup', (event) => {
  if (!brush) return;
  const [start, end] = [Math.min(brush.start, placeOf(event)), Math.max(brush.start, placeOf(event))];
  const isBrushed = !byId('brush').hidden;
  brush = null;
  byId('brush').hidden = true;
  if (isBrushed) setRange(timeAt(start), timeAt(end));
  else clickAt(start, event.clientY - byId('slider').getBoundingClientRect().top);
});
byId('slider').addEventListener('pointercancel', () => { brush = null; byId('brush').hidden = true; });
byId('slider').addEventListener('dblclick', () => { range = null; isHeldRange = false; show(); });
byId('slider').addEventListener('wheel', (event) => {
  if (!event.ctrlKey || !drawnRange) return;
  event.preventDefault();
  zoomTime(event.deltaY < 0 ? .8 : 1.25, placeOf(event) / drawnRange.width);
}, { passive: false });

function laneAt(y) { return drawnRange.lanes[Math.floor((y - AXIS) / LANE_HEIGHT)]; }

function nearMark(lane, x) {
  const span = 6 / drawnRange.width * (drawnRange.to - drawnRange.from);
  const time = timeAt(x);
  const near = (lane ? lane.marks : []).concat(model.takeovers.map((one) => ({ time: one.time, kind: 'takeover',
    words: () => 'Orchestrator ' + one.pid + ' took over from ' + one.former + ' and adopted ' + one.adopted +
      (one.adopted === 1 ? ' process' : ' processes') })))
    .filter((mark) => Math.abs(mark.time - time) <= span);
  return near.sort((a, b) => Math.abs(a.time - time) - Math.abs(b.time - time))[0];
}

// Describes what is below the pointer.
function pointAt(x, y) {
  const lane = laneAt(y);
  const time = timeAt(x);
  const mark = nearMark(lane, x);
  const span = lane && lane.spans.findLast((one) => one.from <= time);
  const words = mark ? mark.words() : !lane ? '' : lane.node.name + ': ' + (!span || span.kind === 'gap' ? 'unknown'
    : (span.kind === 'down' ? span.name : short(span.state === undefined ? span.name : span.state, 80)) + ' from ' + clock(span.from) +
      (span.to === null ? '' : ' for ' + spanText(span.to - span.from)));
  say('pointed', clock(mark ? mark.time : time) + (words ? '  ' + words : ''));
}

function clickAt(x, y) {
  const mark = nearMark(laneAt(y), x);
  if (mark && mark.step) follow(mark.step);
  showInstant(mark ? mark.time : timeAt(x));
}

byId('marks').replaceChildren(...Object.values(MARKS).map(({ sign, color, words }) =>
  make('span', null, make('b', { class: color, 'aria-hidden': 'true' }, sign), ' ' + words)),
make('span', { class: 'hatched' }, 'unknown'));
