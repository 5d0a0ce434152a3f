'use strict';
// Which nodes are looked at: those that are searched for, the neighbours of one, or, of many, like ones as one box.

const MANY = 60;   // So many boxes the graph has at most.
const FEW = 3;     // So many nodes are folded at least.

function searched(states) {
  const wanted = byId('search').value.toLowerCase();
  if (!wanted) return model.topology.nodes;
  return model.topology.nodes.filter((node) => node.name.toLowerCase().includes(wanted) ||
    (node.hosts || '').toLowerCase().includes(wanted) ||
    stateOf(states.get(node.name) || {}, 120).toLowerCase().includes(wanted));
}

const memberships = () => (model.topology.composites || []).flatMap((composite) =>
  composite.nodes.map((node) => ({ from: node, to: composite.name, isMembership: true })));

function near(nodes, wires) {
  const names = new Set([model.chosen]);
  for (const wire of wires) {
    if (wire.from === model.chosen) names.add(wire.to);
    if (wire.to === model.chosen) names.add(wire.from);
  }
  return nodes.filter((node) => names.has(node.name));
}

// What the graph shows: its boxes, the wires between them, and what it leaves out.
function pictured(states) {
  const all = model.topology.nodes;
  const wires = model.topology.pipes.concat(memberships());
  const isLarge = all.length > MANY;
  if (model.chosen && byId('near').checked) return folded(near(all, wires), wires);
  if (!isLarge) return { boxes: all, wires: between(all, wires), note: '' };
  // Who searches wants to see them, and not a box for all of them.
  if (byId('search').value) return cut(searched(states), wires);
  if (model.chosen) {
    return folded(near(all, wires), wires, 'The chosen node and its neighbours, of ' + all.length + ' nodes.');
  }
  return folded(all, wires);
}

function between(boxes, wires) {
  const names = new Set(boxes.map((box) => box.name));
  return wires.filter((wire) => names.has(wire.from) && names.has(wire.to));
}

function cut(boxes, wires, note) {
  const shown = boxes.slice(0, MANY);
  const parts = [note, boxes.length > MANY ? boxes.length - MANY + ' more: search for one.' : ''];
  return { boxes: shown, wires: between(shown, wires), note: parts.filter((part) => part).join(' ') };
}

// Where there are too many, nodes of the same machine whose names differ in numbers alone are one box.
function folded(nodes, wires, note) {
  if (nodes.length <= MANY) return cut(nodes, wires, note);
  const likes = new Map();
  for (const node of nodes) {
    const key = node.name === model.chosen ? node.name : stem(node) + '\n' + node.hosts + '\n' + node.kind;
    if (!likes.has(key)) likes.set(key, []);
    likes.get(key).push(node);
  }
  const boxOf = new Map();
  const boxes = [];
  for (const [key, members] of likes) {
    const box = members.length < FEW ? null : { name: '\n' + key, kind: members[0].kind, members,
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

// To see what a box stands for: its nodes are searched for.
function unfold(box) {
  byId('search').value = box.members[0].name.split(/\d/)[0] || box.members[0].hosts || '';
  show();
  byId('search').focus();
}
