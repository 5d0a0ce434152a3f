'use strict';
// Selects the nodes to show: search results, the peers of the selected node, or groups of similar
// nodes.

const MAX_BOXES = 60;   // The maximum number of boxes in the graph.
const MIN_GROUP = 3;    // The minimum number of nodes in a group.

function searched(states) {
  const wanted = byId('search').value.toLowerCase();
  if (!wanted) return [...model.topology.nodes];
  return model.topology.nodes.filter((node) => node.name.toLowerCase().includes(wanted) ||
    (node.hosts || '').toLowerCase().includes(wanted) ||
    stateOf(states.get(node.name) || {}, 120).toLowerCase().includes(wanted));
}

const memberships = () => (model.topology.composites || []).flatMap((composite) =>
  composite.nodes.map((node) => ({ from: node, to: composite.name, isMembership: true })));

function selectedAndPeers(nodes, wires) {
  const names = new Set([model.chosen]);
  for (const wire of wires) {
    if (wire.from === model.chosen) names.add(wire.to);
    if (wire.to === model.chosen) names.add(wire.from);
  }
  return nodes.filter((node) => names.has(node.name));
}

// Returns the boxes of the graph, the wires between these boxes, and a note about omitted nodes.
function graphContents(states) {
  const all = model.topology.nodes;
  const wires = model.topology.pipes.concat(memberships());
  const isLarge = all.length > MAX_BOXES;
  if (model.chosen && byId('near').checked) return folded(selectedAndPeers(all, wires), wires);
  if (!isLarge) return { boxes: all, wires: between(all, wires), note: '' };
  // Shows each search result by itself, not in a group.
  if (byId('search').value) return cut(searched(states), wires);
  if (model.chosen) {
    return folded(selectedAndPeers(all, wires), wires, 'The selected node and its peers, of ' + all.length + ' nodes.');
  }
  return folded(all, wires);
}

function between(boxes, wires) {
  const names = new Set(boxes.map((box) => box.name));
  return wires.filter((wire) => names.has(wire.from) && names.has(wire.to));
}

function cut(boxes, wires, note) {
  const shown = boxes.slice(0, MAX_BOXES);
  const parts = [note, boxes.length > MAX_BOXES ? boxes.length - MAX_BOXES + ' more: search for one.' : ''];
  return { boxes: shown, wires: between(shown, wires), note: parts.filter((part) => part).join(' ') };
}

// Groups nodes if there are too many. The nodes of a group have the same machine, and names that
// differ only in numbers.
function folded(nodes, wires, note) {
  if (nodes.length <= MAX_BOXES) return cut(nodes, wires, note);
  const groups = new Map();
  for (const node of nodes) {
    const key = node.name === model.chosen ? node.name : stem(node) + '\n' + node.hosts + '\n' + node.kind;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(node);
  }
  const boxOf = new Map();
  const boxes = [];
  for (const [key, members] of groups) {
    const box = members.length < MIN_GROUP ? null : { name: '\n' + key, kind: members[0].kind, members,
      stem: stem(members[0]), running: members.every((node) => node.running) };
    boxes.push(...(box ? [box] : members));
    for (const node of members) boxOf.set(node.name, box ? box.name : node.name);
  }
  const joined = new Map();
  for (const wire of wires) {
    const [from, to] = [boxOf.get(wire.from), boxOf.get(wire.to)];
    if (from === undefined || to === undefined) continue;
    if (from === wire.from && to === wire.to) joined.set(joined.size, wire);
    else {
      const key = from + '\n\n' + to + wire.isMembership;
      if (!joined.has(key)) joined.set(key, { from, to, isMembership: wire.isMembership, count: 0 });
      joined.get(key).count += 1;
    }
  }
  return cut(boxes, [...joined.values()], note);
}
const stem = (node) => node.name.replace(/\d+/g, '…');

// Shows the nodes of a group by putting the common part of their names into the search field.
function unfold(box) {
  byId('search').value = box.members[0].name.split(/\d/)[0] || box.members[0].hosts || '';
  show();
  byId('search').focus();
}
