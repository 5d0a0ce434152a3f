'use strict';
const ROWS = 300;   // Nodes in the table, and pipes.
// What is shown. Once for each frame of the screen at most.

let isDue = false;
function show() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    if (!model.topology) return;
    const states = present();
    indexPipes();
    showHead();
    showNodes(states);
    showPipes();
    showGraph(states);
    showNode(states);
    showChart();
  });
}

// Replaces the contents, and keeps the focus where it is: on what has the same key.
function put(parent, ...parts) {
  const active = document.activeElement;
  const key = active && parent.contains(active) ? active.getAttribute('data-key') : null;
  parent.replaceChildren(...parts);
  if (key === null) return;
  for (const one of parent.querySelectorAll('[data-key]')) {
    if (one.getAttribute('data-key') === key) { one.focus({ preventScroll: true }); break; }
  }
}

function showHead() {
  const topology = model.topology;
  byId('title').textContent = topology.topology;
  byId('phase').textContent = topology.phase + (topology.reason ? ': ' + topology.reason : '') +
    (model.readOnly ? ' · read only' : '');
  byId('phase').className = topology.running ? 'up' : 'down';
  document.title = topology.topology + ' · PipeRuntime';
  byId('skipped').textContent = model.skipped ? model.skipped + ' steps not shown' : '';
  byId('moment').textContent = model.at === null ? 'now' : clock(model.at);
  byId('live').hidden = model.at === null;
}

function showNodes(states) {
  const wanted = byId('search').value.toLowerCase();
  const found = model.topology.nodes.filter((node) => node.name.toLowerCase().includes(wanted) ||
    stateText((states.get(node.name) || {}).state).toLowerCase().includes(wanted));
  const rows = found.slice(0, ROWS).map((node) => {
    const state = states.get(node.name) || {};
    const counts = (model.states.get(node.name) || {}).counts || {};
    const rate = model.rates.get(node.name);
    return make('tr', { 'aria-selected': node.name === model.chosen },
      make('td', null, make('button', { type: 'button', class: 'plain', 'data-key': 'n' + node.name,
        onclick: () => choose(node.name) }, node.name)),
      make('td', { class: 'code' }, state.large ? (state.case || '') + ' (' + state.large + ' bytes)'
        : short(state.state, 120)),
      make('td', { class: 'life ' + (node.running ? 'up' : 'down') }, node.phase +
        (state.doubts && state.doubts.length ? ', in doubt' : '') +
        (counts.blocked && counts.blocked.length ? ', blocked' : '')),
      make('td', { class: 'number' }, rate ? Math.round(rate.value) : ''),
      make('td', { class: 'number' }, counts.letters === undefined ? '' : counts.letters),
      make('td', { class: 'number' }, node.restarts));
  });
  if (found.length > ROWS) {
    rows.push(make('tr', null, make('td', { colspan: 6 }, (found.length - ROWS) + ' more: search for one')));
  }
  put(byId('nodes'), ...rows);
}

// By pipe, what its ends count.
function indexPipes() {
  model.ends = new Map();
  const of = (name) => {
    if (!model.ends.has(name)) model.ends.set(name, {});
    return model.ends.get(name);
  };
  for (const state of model.states.values()) {
    const counts = state.counts || {};
    for (const end of counts.outs || []) Object.assign(of(end.name), { out: end, full: counts.blocked.includes(end.name) });
    for (const end of counts.ins || []) of(end.name).in = end;
  }
}
const pipeEnds = (name) => model.ends.get(name) || {};

function showPipes() {
  const rows = model.topology.pipes.slice(0, ROWS).map((pipe) => {
    const ends = pipeEnds(pipe.name);
    const waits = (ends.out ? ends.out.waiting : 0) + (ends.in ? ends.in.waiting : 0);
    const fill = ends.out ? ends.out.waiting + ' of ' + pipe.capacity + (ends.full ? ', full' : '') +
      (ends.in && ends.in.waiting ? ', ' + ends.in.waiting + ' at the receiver' : '') : '–';
    return make('tr', null, make('td', { class: 'code' }, pipe.name),
      make('td', { class: ends.full ? 'down' : waits ? 'up' : '' }, fill),
      make('td', { class: 'number' }, ends.out ? ends.out.events : '–'),
      make('td', { class: 'number' }, ends.out ? ends.out.applied : '–'));
  });
  byId('pipes').closest('section').hidden = rows.length === 0;
  put(byId('pipes'), ...rows);
}
