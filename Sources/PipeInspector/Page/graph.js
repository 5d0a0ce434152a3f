'use strict';
// Draws the topology in layers: a node is to the right of the nodes that send to it, except in cycles.

function layers(boxes, wires) {
  const rank = new Map(boxes.map((box) => [box.name, 0]));
  const order = new Map(boxes.map((box, index) => [box.name, index]));
  // The order of the topology file decides which pipes lead forward. A composite is to the right of its nodes.
  const forward = wires.filter((wire) => wire.from !== wire.to &&
    (wire.isMembership || order.get(wire.from) <= order.get(wire.to)));
  for (let round = 0; round < Math.min(boxes.length, 12); round += 1) {
    let hasMoved = false;
    for (const wire of forward) {
      if (rank.get(wire.to) > rank.get(wire.from)) continue;
      rank.set(wire.to, rank.get(wire.from) + 1);
      hasMoved = true;
    }
    if (!hasMoved) break;
  }
  const columns = [];
  for (const box of boxes) (columns[rank.get(box.name)] ||= []).push(box);
  // Split long columns.
  return columns.filter((column) => column && column.length).flatMap((column) => {
    const count = Math.ceil(column.length / 8);
    const length = Math.ceil(column.length / count);
    return Array.from({ length: count }, (_, part) => column.slice(part * length, (part + 1) * length));
  });
}

const BOX = { width: 150, height: 46, gap: 60, space: 16 };

let picture = null;   // The drawn graph, with the signature of its boxes and wires.

// Lays out the graph again if the boxes or wires differ. Otherwise redraws only the boxes and wires that have changed.
function showGraph(states) {
  const { boxes, wires, note } = graphContents(states);
  const signature = JSON.stringify([boxes.map((box) => [box.name, box.kind]),
    wires.map((wire) => [wire.from, wire.to, wire.name])]);
  if (!picture || picture.signature !== signature) {
    picture = { signature, ...layOut(boxes, wires) };
    put(byId('graph'), boxes.length ? picture.svg : make('p', null, 'No matching nodes.'));
  }
  const { place } = picture;
  putRows(picture.lines, wires.map((wire, index) => {
    const look = wireLook(wire);
    return { key: index, signature: look.label + look.isFull + wire.count, build: () =>
      draw('g', null, ...wireParts(wire, place.get(wire.from), place.get(wire.to), look)) };
  }));
  putRows(picture.boxes, boxes.map((box) => {
    const look = box.members ? foldLook(box) : nodeLook(box, states);
    return { key: box.name, signature: JSON.stringify(look), build: () => boxPart(place.get(box.name), look,
      () => box.members ? unfold(box) : choose(box.name)) };
  }));
  byId('folded').textContent = note;
}

function layOut(boxes, wires) {
  const { width, height, gap, space } = BOX;
  const place = new Map();
  const columns = layers(boxes, wires);
  columns.forEach((column, x) => column.forEach((box, y) =>
    place.set(box.name, { x: 8 + x * (width + gap), y: 20 + y * (height + space) })));
  const rows = Math.max(1, ...columns.map((column) => column.length));
  const [lines, shapes] = [draw('g'), draw('g')];
  const svg = draw('svg', { width: 16 + columns.length * (width + gap),
    height: 34 + rows * (height + space), role: 'group', 'aria-label': 'Nodes and pipes' }, lines, shapes);
  return { place, lines, boxes: shapes, svg };
}

function wireLook(wire) {
  if (wire.isMembership) return { label: null, isFull: false };
  if (wire.count) return { label: wire.count > 1 ? '×' + wire.count : null, isFull: false };
  const { underWay, full } = pipeEnds(wire.name);
  return { label: underWay ? underWay + '/' + wire.capacity + (full ? ' full' : '') : null, isFull: Boolean(full) };
}

function wireParts(wire, from, to, { label, isFull }) {
  const { width, height, gap } = BOX;
  if (wire.isMembership) {
    return [draw('path', { class: 'wire member',
      d: `M${from.x + width} ${from.y + height / 2}L${to.x} ${to.y + height / 2}` },
    draw('title', null, wire.count ? wire.count + ' nodes take part' : wire.from + ' takes part in ' + wire.to))];
  }
  const isForward = to.x > from.x;
  // A wire within a column bends to the right of it.
  const isBeside = to.x === from.x;
  const [x1, x2] = [from.x + (isForward || isBeside ? width : 0), to.x + (isForward ? 0 : width)];
  // Wires in opposite directions must not overlap.
  const [y1, y2] = [from.y, to.y].map((y, end) => y + height * (isBeside ? .4 + .2 * end : isForward ? .35 : .7));
  const [bend1, bend2] = isBeside ? [gap * .6, -gap * .6] : Array(2).fill(isForward ? (x2 - x1) / 2 : -gap / 2);
  return [draw('path', { class: 'wire' + (isFull ? ' full' : ''), 'marker-end': 'url(#tip)',
    d: `M${x1} ${y1} C${x1 + bend1} ${y1} ${x2 - bend2} ${y2} ${x2} ${y2}` },
  draw('title', null, wire.count ? wire.count + ' pipes' : wire.name)),
  label && draw('text', { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 3, 'text-anchor': 'middle', class: 'small' },
    label)].filter((part) => part);
}

function nodeLook(node, states) {
  const state = states.get(node.name) || {};
  const blocked = isBlocked(node) ? 'blocked, ' : '';
  const text = node.running ? blocked + stateOf(state, 20) : node.phase;
  const kind = 'box' + (blocked ? ' blocked' : node.running ? '' : node.phase === 'stopped' ? ' idle' : ' gone') +
    (node.name === model.chosen ? ' now' : '');
  return { kind, key: 'g' + node.name, round: node.kind === 'composite' ? 14 : 3,
    lines: [short(node.name, 20), short(text, 22)], title: node.name + ': ' + blocked + stateOf(state, 400),
    label: node.name + ', ' + (node.running ? blocked + stateOf(state, 120) : node.phase) };
}

function foldLook(box) {
  const down = box.members.filter((node) => !node.running).length;
  const life = down ? down + ' not running' : 'all running';
  return { kind: box.running ? 'box fold' : 'box fold gone', key: 'g' + box.name, round: 3,
    lines: [box.members.length + ' × ' + short(box.stem, 14), life], label: box.members.length + ' nodes ' +
      box.stem + ', ' + life + ': search for them', title: box.members.length + ' nodes, ' + life };
}

function boxPart({ x, y }, { kind, key, round, lines, label, title }, pick) {
  return draw('g', { tabindex: 0, role: 'button', 'data-key': key, onclick: pick, 'aria-label': label,
    onkeydown: (event) => { if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault(); pick(); } } },
  kind.includes('fold') ? draw('rect', { class: kind, x: x + 4, y: y - 4, width: BOX.width, height: BOX.height,
    rx: round }) : null,
  draw('rect', { class: kind, x, y, width: BOX.width, height: BOX.height, rx: round }),
  draw('text', { x: x + 8, y: y + 18 }, lines[0]), draw('text', { x: x + 8, y: y + 36, class: 'small' }, lines[1]),
  draw('title', null, title));
}
