'use strict';
// Draws the topology. The inspector computes the positions, in the same way as for `orchestrator graph`.

const HALF = { x: 4, y: 7 };             // Half a character. The inspector's positions count in this unit.
const TEXT = { width: 22, height: 2 };   // The space for text in a box. Unit: characters and lines.
const PANEL = { least: 150, most: 400 };   // The height of the panel. Unit: pixels.
const LAYOUTS = 20;                      // The maximum number of layouts in memory.
const ZOOM = { least: .3, readable: .55, fit: 1.15, most: 2.5 };

const layouts = new Map();   // The layouts by request; `null` while the inspector computes the layout.
let picture = null;          // The drawn graph, with the request for its layout.
let zoom = null;             // The zoom that the user has chosen; `null` fits the graph into the panel.

// Keeps the former picture until the layout of new boxes has arrived. Redraws only the boxes and wires
// whose contents have changed.
function showGraph(states) {
  const { boxes, wires, note } = graphContents(states);
  say('folded', note + (picture && picture.missing ? ' ' + picture.missing + ' wires are not drawn.' : ''));
  if (!boxes.length) {
    picture = null;
    document.body.classList.remove('loading');
    put(byId('graph'), make('p', { class: 'empty' }, model.topology.nodes.length ? 'No matching nodes.' : emptyText()));
    return;
  }
  const request = JSON.stringify(layoutRequest(boxes, wires));
  const layout = layouts.get(request);
  if (!layout) { fetchLayout(request); return; }
  if (!picture || picture.request !== request) {
    picture = { request, layout, ...canvas(layout) };
    put(byId('graph'), picture.svg);
    document.body.classList.remove('loading');
  }
  fitGraph();
  drawParts(boxes, wires, states);
}

const emptyText = () => 'Topology ' + model.topology.topology + ' is not running. Start it with: orchestrator up ' +
  (model.topology.file || 'FILE');

function layoutRequest(boxes, wires) {
  const isComposite = new Set(boxes.filter((box) => box.kind === 'composite' && !box.members).map((box) => box.name));
  const isNode = new Set(boxes.filter((box) => !box.members && box.kind !== 'composite').map((box) => box.name));
  const isComponent = (wire) => wire.isMembership && isNode.has(wire.from) && isComposite.has(wire.to);
  // One line stands for all wires between two boxes.
  const seen = new Set();
  const others = wires.filter((wire) => !isComponent(wire)).map((wire) => ({ from: wire.from, to: wire.to,
    isPart: Boolean(wire.isMembership), label: wire.isMembership ? 0 : wire.count ? 4 : 2 * String(wire.capacity).length + 1 }))
    .filter((wire) => !seen.has(wire.from + '\n\n' + wire.to + wire.isPart) && seen.add(wire.from + '\n\n' + wire.to + wire.isPart));
  // The inspector chooses the direction that fits best. The width is rounded, so that a scroll bar
  // does not change the layout.
  const { width } = sizeOf(byId('graph'));
  return {
    width: Math.max(4, Math.round(width / 80)) * 10, height: Math.round(PANEL.most / 2 / HALF.y),
    boxes: boxes.filter((box) => !isComposite.has(box.name)).map((box) => ({ name: box.name, ...TEXT })),
    composites: [...isComposite].map((name) => ({ name, width: TEXT.width, height: 1,
      nodes: wires.filter((wire) => wire.to === name && isComponent(wire)).map((wire) => wire.from) })),
    wires: others,
  };
}

function fetchLayout(request) {
  if (layouts.has(request)) return;
  layouts.set(request, null);
  ask('/api/layout', request).then((layout) => {
    layouts.delete(request);
    layouts.set(request, layout);
    if (layouts.size > LAYOUTS) layouts.delete(layouts.keys().next().value);
    show();
  }).catch(() => {
    document.body.classList.remove('loading');
    setTimeout(() => { layouts.delete(request); show(); }, 2000);
  });
}

function canvas(layout) {
  const [width, height] = [layout.width * HALF.x, layout.height * HALF.y];
  const [frames, lines, dots, labels, shapes] = Array.from({ length: 5 }, () => draw('g'));
  const svg = draw('svg', { viewBox: '0 0 ' + width + ' ' + height, role: 'group', 'aria-label': 'Nodes and pipes' },
    frames, lines, dots, labels, shapes);
  const missing = layout.wires.filter((line) => !line.points.length).length;
  return { width, height, svg, frames, lines, pulses: dots, labels, shapes, missing };
}

function fitGraph() {
  // A graph that would be too small to read is scrolled.
  const panel = byId('graph');
  const whole = Math.min(ZOOM.fit, (sizeOf(panel).width - 4) / picture.width, (PANEL.most - 4) / picture.height);
  // The panel is as high as the graph, within limits.
  const height = Math.max(PANEL.least, Math.min(PANEL.most, Math.ceil(picture.height * Math.max(ZOOM.readable, whole)) + 24));
  if (panel.style.height !== height + 'px') panel.style.height = height + 'px';
  const chosen = zoom || Math.max(ZOOM.readable, whole);
  picture.zoom = chosen;
  if (picture.svg.getAttribute('width') === String(Math.round(picture.width * chosen))) return;
  picture.svg.setAttribute('width', Math.round(picture.width * chosen));
  picture.svg.setAttribute('height', Math.round(picture.height * chosen));
}

// Changes the zoom around the middle of the panel. `null` fits the graph into the panel.
function setZoom(value) {
  if (!picture) return;
  const panel = byId('graph');
  const [x, y] = [(panel.scrollLeft + panel.clientWidth / 2) / picture.zoom,
    (panel.scrollTop + panel.clientHeight / 2) / picture.zoom];
  zoom = value && Math.max(ZOOM.least, Math.min(ZOOM.most, value));
  fitGraph();
  panel.scrollTo(x * picture.zoom - panel.clientWidth / 2, y * picture.zoom - panel.clientHeight / 2);
}

function drawParts(boxes, wires, states) {
  const { layout } = picture;
  // A search dims the other nodes.
  const found = byId('search').value ? new Set(searched(states)) : null;
  const byName = new Map(boxes.map((box) => [box.name, box]));
  const between = new Map();
  for (const wire of wires) {
    const key = wire.from + '\n\n' + wire.to + Boolean(wire.isMembership);
    if (!between.has(key)) between.set(key, []);
    between.get(key).push(wire);
  }
  // A membership wire leads from a component to its composite, but the line in the layout leads
  // from the composite to the component.
  const ofLine = (line) => between.get(line.from + '\n\n' + line.to + line.isPart) ||
    between.get(line.to + '\n\n' + line.from + line.isPart) || [];
  const looks = layout.wires.map((line) => wireLook(ofLine(line), line.isPart));
  layout.wires.forEach((line, index) => { looks[index].pipes = ofLine(line).map((wire) => wire.name).filter((name) => name); });
  putRows(picture.lines, layout.wires.map((line, index) => ({ key: index, signature: JSON.stringify(looks[index]),
    build: () => wirePart(line, looks[index]) })));
  drawPulses(layout.wires, looks);
  putRows(picture.labels, layout.wires.flatMap((line, index) => line.label && looks[index].label
    ? [{ key: index, signature: JSON.stringify(looks[index]), build: () => labelPart(line.label, looks[index]) }] : []));
  putRows(picture.frames, layout.frames.filter((frame) => byName.has(frame.name)).map((frame) => {
    const look = nodeLook(byName.get(frame.name), states, found);
    return { key: frame.name, signature: JSON.stringify(look), build: () => framePart(frame, look) };
  }));
  const isFramed = new Set(layout.frames.map((frame) => frame.name));
  putRows(picture.shapes, layout.boxes.filter((place) => byName.has(place.name)).map((place) => {
    const box = byName.get(place.name);
    const look = box.members ? foldLook(box) : nodeLook(box, states, found);
    // The box in a frame is only the end of the composite's pipes.
    if (isFramed.has(place.name)) return { key: place.name, signature: 'end', build: () => endPart(place) };
    return { key: place.name, signature: JSON.stringify(look), shape: boxShape(look), update: (element) => updateBox(element, look),
      build: () => updateBox(boxPart(place, look, () => box.members ? unfold(box) : choose(box.name)), look) };
  }));
}

// Wires

// The pipes between two boxes are one wire, which shows the fullest pipe.
function wireLook(wires, isPart) {
  const isLit = followed && wires.some((wire) => followed.pipes.has(wire.name) ||
    (isPart && followed.nodes.has(wire.from) && followed.nodes.has(wire.to)));
  const lit = !followed ? '' : isLit ? ' lit' : ' dim';
  if (isPart) return { style: 'wire member' + lit, label: null, width: 1.5, title: wires.map((wire) => wire.count
    ? wire.count + ' nodes take part' : wire.from + ' takes part in ' + wire.to).join('\n') };
  let [fullest, rate, label] = [0, 0, null];
  let isFull = false;
  const titles = wires.map((wire) => {
    if (wire.count) {
      label = wire.count > 1 ? '×' + wire.count : null;
      return wire.count + (wire.count > 1 ? ' pipes' : ' pipe');
    }
    const { underWay, full } = pipeEnds(wire.name);
    const now = pipeRate(wire.name);
    rate += now || 0;
    if (underWay && underWay / wire.capacity > fullest) {
      fullest = underWay / wire.capacity;
      label = underWay + '/' + wire.capacity;
    }
    isFull = isFull || Boolean(full);
    return wire.name + ': ' + (underWay === undefined ? 'unknown' : underWay + ' of ' + wire.capacity + (full ? ', full' : '')) +
      (now ? ', ' + Math.round(now) + ' events/s' : '');
  });
  // The line of a full pipe is wide, although no events flow through the pipe.
  const level = isFull ? 'full' : fullest >= .5 ? 'high' : fullest > 0 ? 'some' : 'none';
  return { style: 'wire ' + level + lit, label, level, width: Math.max(isFull || isLit ? 3 : 0, wireWidth(rate)), title: titles.join('\n'), isLit };
}

// 1 event/s: 2.1 pixels, 1,000 events/s: 4.5 pixels. The width is rounded, so that a wire is seldom
// redrawn.
const wireWidth = (rate) => Math.round((1.5 + Math.log10(1 + rate)) * 2) / 2;

function wirePart(line, look) {
  if (!line.points.length) return draw('g');
  const path = roundedPath(wirePoints(line));
  const title = draw('title', null, look.title);
  // When the pointer enters the wire, the name of the last event is added to the wire's
  // description.
  return draw('g', look.pipes.length ? { class: 'pipe', onclick: () => followPipes(look.pipes),
    onpointerenter: () => setText(title, look.title + lastEventWords(look.pipes)) } : null, draw('path', { class: look.style, 'stroke-width': look.width, d: path,
    'marker-end': line.isPart ? null : 'url(#tip' + (look.isLit ? '-lit' : look.level === 'full' ? '-full' : '') + ')' }),
  draw('path', { class: 'grip', d: path }), title);
}

function wirePoints(line) {
  const points = [];
  for (let index = 0; index < line.points.length; index += 2) {
    points.push({ x: line.points[index] * HALF.x, y: line.points[index + 1] * HALF.y });
  }
  return points;
}

function roundedPath(points) {
  let path = 'M' + points[0].x + ' ' + points[0].y;
  for (let index = 1; index < points.length - 1; index += 1) {
    const [before, corner, after] = points.slice(index - 1, index + 2);
    const radius = Math.min(7, distance(before, corner) / 2, distance(corner, after) / 2);
    const [start, end] = [towards(corner, before, radius), towards(corner, after, radius)];
    path += 'L' + start.x + ' ' + start.y + 'Q' + corner.x + ' ' + corner.y + ' ' + end.x + ' ' + end.y;
  }
  const last = points[points.length - 1];
  return path + 'L' + last.x + ' ' + last.y;
}
const distance = (a, b) => Math.abs(a.x - b.x) + Math.abs(a.y - b.y);
const towards = (from, to, length) => ({ x: from.x + Math.sign(to.x - from.x) * length,
  y: from.y + Math.sign(to.y - from.y) * length });

function labelPart([x, y, width], { label, level }) {
  const words = label + (level === 'full' ? ' full' : '');
  const shown = words.length * 7 + 6;
  return draw('g', { class: 'label ' + level }, draw('rect', { x: (x + width / 2) * HALF.x - shown / 2, y: y * HALF.y,
    width: shown, height: 2 * HALF.y, rx: 4 }), draw('text', { x: (x + width / 2) * HALF.x, y: (y + 1) * HALF.y + 4,
    'text-anchor': 'middle', class: 'small' }, words));
}

// Boxes and frames

// Finds the condition of each node: its style, its rank, and words that say the same as the color.
// The worst condition has the lowest rank.
function indexConditions(states) {
  model.conditions = new Map(model.topology.nodes.map((node) => [node.name, condition(node, states.get(node.name) || {})]));
}

function condition(node, state) {
  const words = [];
  const { deadLetters = 0, blocked = [] } = shownNodeState(node.name).counts || {};
  const isBlocked = node.running && blocked.length > 0;
  if (!node.running) words.push(node.phase);
  if (isBlocked) words.push('blocked');
  if (state.doubts && state.doubts.length) words.push('in doubt');
  if (deadLetters) words.push(deadLetters + (deadLetters === 1 ? ' dead letter' : ' dead letters'));
  const style = node.running
    ? isBlocked ? 'blocked' : words.includes('in doubt') ? 'doubt' : deadLetters ? 'letters' : 'well'
    : ['stopped', 'completed', 'idle', 'down', 'ended', 'not recorded'].includes(node.phase) ? 'stopped' : node.phase === 'failed' || node.phase === 'lost'
      ? 'failed' : 'backing';
  return { style, words, rank: RANKS.indexOf(style) };
}
const RANKS = ['failed', 'blocked', 'doubt', 'backing', 'letters', 'stopped', 'well'];

function nodeLook(node, states, found) {
  const state = states.get(node.name) || {};
  const { style, words } = model.conditions.get(node.name);
  const text = node.kind === 'composite' ? componentsText(state) : stateOf(state, 400);
  const isDim = (found && !found.has(node)) || (followed && !followed.nodes.has(node.name));
  return { style: style + (isDim ? ' dim' : followed ? ' lit' : '') + (node.name === model.chosen ? ' chosen' : '') + (node.kind === 'composite' ? ' together' : ''),
    key: 'g' + node.name, name: short(node.name, 24), state: state.state === undefined && !state.large ? '' : short(text, 27), words: short(words.join(' · '), 24),
    trend: node.running ? trend(node.name) : '', title: node.name + ': ' + words.concat(text).join(', '),
    label: node.name + ', ' + words.concat(short(text, 120)).join(', ') };
}

// The state of a composite consists of the states of its components: `fork1: held, fork2: free`.
function componentsText(state) {
  const parts = state.state;
  if (!parts || typeof parts !== 'object' || Array.isArray(parts) || caseName(parts)) return stateOf(state, 400);
  return Object.entries(parts).map(([name, value]) => name + ': ' + short(value, 40)).join(', ');
}

function foldLook(box) {
  const conditions = box.members.map((node) => model.conditions.get(node.name));
  const worst = Math.min(...conditions.map((one) => one.rank));
  const down = box.members.filter((node) => !node.running).length;
  const life = down ? down + ' not running' : 'all running';
  const troubled = conditions.filter((one) => one.style !== 'well').length;
  return { style: 'fold ' + RANKS[worst], key: 'g' + box.name, name: box.members.length + ' × ' + short(box.stem, 18),
    state: life, words: troubled && troubled !== down ? troubled + ' with problems' : '', trend: '',
    label: box.members.length + ' nodes ' + box.stem + ', ' + life + ': search for them',
    title: box.members.length + ' nodes, ' + life };
}

// The event rates of the last samples, as points of a line.
function trend(name) {
  const samples = (model.samples.get(name) || []).filter((one) => model.at === null || one.time <= model.at).slice(-20);
  const rates = samples.map((one) => one.rate || 0);
  const most = Math.max(...rates, 1);
  if (rates.length < 2 || rates.every((rate) => !rate)) return '';
  return rates.map((rate, index) => (index * 3) + ',' + Math.round(14 - rate / most * 13)).join(' ');
}

const area = (place) => ({ x: place.x * HALF.x, y: place.y * HALF.y, width: place.width * HALF.x, height: place.height * HALF.y });

const button = (look, pick, ...parts) => draw('g', { tabindex: 0, role: 'button', 'data-key': look.key, onclick: pick,
  class: 'node ' + look.style, 'aria-label': look.label, onkeydown: (event) => {
    if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); pick(); } } }, ...parts);

// Whether the words of a problem fit beside the name. Otherwise, the words are before the state.
const hasSpace = (look) => look.name.length + look.words.length <= 22;

// Boxes with the same shape have the same elements, with other texts and colors.
const boxShape = (look) => [look.name, look.style.includes('fold'), look.style.includes('together'), hasSpace(look), look.words !== '',
  look.trend !== ''].join('\n');

function boxPart(place, look, pick) {
  const { x, y, width, height } = area(place);
  const isShort = hasSpace(look);
  const rx = look.style.includes('together') ? 18 : 6;
  return button(look, pick,
    look.style.includes('fold') ? draw('rect', { class: 'box', x: x + 5, y: y - 5, width, height, rx }) : null,
    draw('rect', { class: 'box', x, y, width, height, rx }),
    draw('rect', { class: 'stripe', x: x + 6, y: y + 8, width: 4, height: height - 16, rx: 2 }),
    draw('text', { x: x + 18, y: y + 21, class: 'name' }, look.name),
    look.words && isShort ? draw('text', { x: x + width - 10, y: y + 21, class: 'words', 'text-anchor': 'end' }, '') : null,
    draw('text', { x: x + 18, y: y + 40, class: look.words && !isShort ? 'words second' : 'second' }, ''),
    look.trend && (isShort || !look.words) ? draw('polyline', { class: 'trend',
      transform: 'translate(' + (x + width - 68) + ' ' + (y + height - 21) + ')' }) : null,
    draw('title', null, ''));
}

function updateBox(element, look) {
  const isShort = hasSpace(look);
  setClass(element, 'node ' + look.style);
  element.setAttribute('aria-label', look.label);
  for (const part of element.children) {
    if (part.tagName === 'title') setText(part, look.title);
    else if (part.tagName === 'polyline') part.setAttribute('points', look.trend);
    else if (part.classList.contains('second')) {
      setText(part, look.words && !isShort ? look.words : short(look.state, look.trend ? 17 : 27));
    } else if (part.classList.contains('words')) setText(part, look.words);
  }
  return element;
}

function setText(element, text) {
  if (!element.firstChild) element.append(text);
  else if (element.firstChild.data !== text) element.firstChild.data = text;
}

function framePart(place, look) {
  const { x, y, width, height } = area(place);
  return button(look, () => choose(place.name),
    draw('rect', { class: 'frame', x, y, width, height, rx: 10 }),
    draw('text', { x: x + 14, y: y + 23, class: 'name' }, short(look.name, 40) + '  '),
    draw('text', { x: x + width - 14, y: y + 23, 'text-anchor': 'end' }, look.words),
    draw('title', null, look.title));
}

function endPart(place) {
  const { x, y, width, height } = area(place);
  return draw('g', null, draw('rect', { class: 'end', x, y, width, height, rx: 10 }),
    draw('text', { x: x + width / 2, y: y + height / 2 + 4, 'text-anchor': 'middle', class: 'small' }, 'pipes of ' + short(place.name, 14)));
}
