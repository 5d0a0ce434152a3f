'use strict';
// The topology as layers: a node stands behind those that send to it, as far as there is no circle.

function layers(nodes, pipes) {
  const rank = new Map(nodes.map((node) => [node.name, 0]));
  // A composite stands behind its nodes.
  const wires = pipes.concat(memberships());
  for (let round = 0; round < Math.min(nodes.length, 12); round += 1) {
    let hasMoved = false;
    for (const pipe of wires) {
      if (!rank.has(pipe.from) || !rank.has(pipe.to) || pipe.from === pipe.to) continue;
      if (!pipe.isMembership && isBack(pipe, nodes)) continue;
      if (rank.get(pipe.to) <= rank.get(pipe.from)) {
        rank.set(pipe.to, rank.get(pipe.from) + 1);
        hasMoved = true;
      }
    }
    if (!hasMoved) break;
  }
  const columns = [];
  for (const node of nodes) (columns[rank.get(node.name)] ||= []).push(node);
  // One that is too long is several.
  return columns.filter((column) => column && column.length).flatMap((column) => {
    const count = Math.ceil(column.length / 8);
    const length = Math.ceil(column.length / count);
    return Array.from({ length: count }, (_, part) => column.slice(part * length, (part + 1) * length));
  });
}
const memberships = () => (model.topology.composites || []).flatMap((composite) =>
  composite.nodes.map((node) => ({ from: node, to: composite.name, isMembership: true })));
// The order of the file says what is forward.
const isBack = (pipe, nodes) => nodes.findIndex((node) => node.name === pipe.from) >
  nodes.findIndex((node) => node.name === pipe.to);

function near(nodes, pipes) {
  const names = new Set([model.chosen]);
  for (const pipe of pipes.concat(memberships())) {
    if (pipe.from === model.chosen) names.add(pipe.to);
    if (pipe.to === model.chosen) names.add(pipe.from);
  }
  return nodes.filter((node) => names.has(node.name));
}

function showGraph(states) {
  let nodes = model.topology.nodes;
  const pipes = model.topology.pipes;
  const mustFold = nodes.length > MANY;
  if ((byId('near').checked || mustFold) && model.chosen) nodes = near(nodes, pipes);
  else if (mustFold) {
    put(byId('graph'), make('p', null, nodes.length + ' nodes: choose one to see its neighbours.'));
    return;
  }
  const [width, height, gap, space] = [150, 46, 60, 16];
  const place = new Map();
  const columns = layers(nodes, pipes);
  columns.forEach((column, x) => column.forEach((node, y) =>
    place.set(node.name, { x: 8 + x * (width + gap), y: 20 + y * (height + space) })));
  const rows = Math.max(1, ...columns.map((column) => column.length));
  const svg = draw('svg', { width: 16 + columns.length * (width + gap),
    height: 34 + rows * (height + space), role: 'group', 'aria-label': 'Nodes and pipes' });
  for (const pipe of memberships()) {
    const [from, to] = [place.get(pipe.from), place.get(pipe.to)];
    if (from && to) {
      svg.append(draw('path', { class: 'wire member',
        d: `M${from.x + width} ${from.y + height / 2}L${to.x} ${to.y + height / 2}` },
      draw('title', null, pipe.from + ' takes part in ' + pipe.to)));
    }
  }
  for (const pipe of pipes) {
    const [from, to] = [place.get(pipe.from), place.get(pipe.to)];
    if (!from || !to) continue;
    const ends = pipeEnds(pipe.name);
    const isForward = to.x > from.x;
    const [x1, x2] = [from.x + (isForward ? width : 0), to.x + (isForward ? 0 : width)];
    // There and back are two lines.
    const [y1, y2] = [from.y, to.y].map((y) => y + height * (isForward ? .35 : .7));
    const bend = isForward ? (x2 - x1) / 2 : -gap / 2;
    svg.append(draw('path', { class: 'wire' + (ends.full ? ' gone' : ''), 'marker-end': 'url(#tip)',
      d: `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` },
      draw('title', null, pipe.name)));
    if (ends.out && ends.out.waiting) {
      svg.append(draw('text', { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 3, 'text-anchor': 'middle',
        class: 'small' }, ends.out.waiting + '/' + pipe.capacity));
    }
  }
  svg.prepend(draw('defs', null, draw('marker', { id: 'tip', viewBox: '0 0 8 8', refX: 8, refY: 4,
    markerWidth: 8, markerHeight: 8, markerUnits: 'userSpaceOnUse', orient: 'auto' }, draw('path', { class: 'tip', d: 'M0 0 8 4 0 8z' }))));
  for (const node of nodes) {
    const { x, y } = place.get(node.name);
    const state = states.get(node.name) || {};
    const text = state.large ? state.case || '…' : short(state.state, 20);
    const kind = !node.running ? 'box gone' : node.name === model.chosen ? 'box now' : 'box';
    const pick = () => choose(node.name);
    svg.append(draw('g', { tabindex: 0, role: 'button', 'data-key': 'g' + node.name, onclick: pick,
      onkeydown: (event) => { if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault(); pick(); } },
      'aria-label': node.name + ', ' + (node.running ? stateText(state.state) : node.phase) },
      draw('rect', { class: kind, x, y, width, height, rx: node.kind === 'composite' ? 14 : 3 }),
      draw('text', { x: x + 8, y: y + 18 }, short(node.name, 20)),
      draw('text', { x: x + 8, y: y + 36, class: 'small' }, node.running ? text : node.phase),
      draw('title', null, node.name + ': ' + stateText(state.state))));
  }
  put(byId('graph'), svg);
}
