'use strict';
// The page of the inspector. Whatever comes from the topology becomes text nodes, and nothing else.

const SVG = 'http://www.w3.org/2000/svg';
const KEPT = 4000;   // Steps that the page remembers.
const SHOWN = 60;    // Rows of the sequence chart.
const MANY = 60;     // From so many nodes on the graph shows the neighbours only.
const token = takeToken();
const byId = (id) => document.getElementById(id);
const model = { topology: null, states: new Map(), steps: [], cursor: '0', chosen: null, at: null,
  frozen: false, skipped: 0, readOnly: true, machine: null, enabled: null, letters: null,
  rates: new Map(), places: new Map(), ends: new Map(), message: '' };

function takeToken() {
  const found = /[#&]token=([0-9a-f]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem('token', found[1]);
    history.replaceState(null, '', location.pathname);
  }
  return sessionStorage.getItem('token') || '';
}

// Elements: make('td', {class: 'number'}, 'text', child…)
function fill(element, attributes, parts) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  for (const part of parts) {
    if (part === null || part === undefined) continue;
    element.append(part instanceof Node ? part : document.createTextNode(String(part)));
  }
  return element;
}
const make = (name, attributes, ...parts) =>
  fill(document.createElement(name), attributes, parts);
const draw = (name, attributes, ...parts) =>
  fill(document.createElementNS(SVG, name), attributes, parts);

async function ask(path, body) {
  const options = { headers: { Authorization: 'Bearer ' + token }, cache: 'no-store' };
  if (body) {
    options.method = 'POST';
    options.headers['Content-Type'] = 'application/json';
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  const isJSON = (answer.headers.get('Content-Type') || '').startsWith('application/json');
  const value = isJSON ? await answer.json() : { error: (await answer.text()).trim() };
  if (!answer.ok) {
    const problem = new Error(value.error || 'the inspector answers with ' + answer.status);
    problem.status = answer.status;
    throw problem;
  }
  return value;
}

// Words

function short(value, length) {
  const text = stateText(value);
  return text.length > length ? text.slice(0, length - 1) + '…' : text;
}

// open · closing(persons: 3) · {"a":1}
function stateText(value) {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '–';
  if (typeof value === 'object' && !Array.isArray(value)) {
    const names = Object.keys(value);
    if (names.length === 1 && value[names[0]] && typeof value[names[0]] === 'object') {
      const inner = value[names[0]];
      const parts = Object.keys(inner).map((name) =>
        (/^_\d+$/.test(name) ? '' : name + ': ') + JSON.stringify(inner[name]));
      return parts.length ? names[0] + '(' + parts.join(', ') + ')' : names[0];
    }
  }
  return JSON.stringify(value);
}

function caseName(value) {
  if (typeof value === 'string') return value;
  if (value && typeof value === 'object') {
    const names = Object.keys(value);
    if (names.length === 1) return names[0];
  }
  return null;
}

const clock = (time) => new Date(time / 1e6).toLocaleTimeString([], { hour12: false }) + '.' +
  String(Math.floor(time / 1e6) % 1000).padStart(3, '0');

// What is taken in

function take(delta) {
  if (delta.whole) {
    model.states.clear();
    model.steps = [];
    model.skipped = 0;
  }
  model.cursor = delta.cursor;
  let isSeen = false;
  for (const one of delta.standing) {
    if (one.is === 'topology') takeTopology(one);
    else if (one.is === 'state') {
      const former = model.states.get(one.node);
      model.states.set(one.node, one);
      count(one, former);
      if (one.node === model.chosen) isSeen = true;
    }
  }
  for (const step of delta.happened) {
    if (step.place !== undefined) countMissing(step);
    if (!step.skipped) model.steps.push(step);
  }
  if (delta.happened.length) model.steps.sort((a, b) => (a.time || 0) - (b.time || 0));
  if (model.steps.length > KEPT) model.steps.splice(0, model.steps.length - KEPT);
  if (isSeen) lookAtChosen();
  if (!model.frozen) show();
}

// Steps of a process have places without gaps: what is missing was not told, by whomever.
function countMissing(step) {
  const last = model.places.get(step.node);
  if (last && last.incarnation === step.incarnation && step.place > last.place) {
    model.skipped += step.place - last.place - (step.skipped ? 0 : 1);
  }
  model.places.set(step.node, { incarnation: step.incarnation, place: step.place });
}

function takeTopology(topology) {
  model.topology = topology;
  const names = new Set(topology.nodes.map((node) => node.name));
  for (const name of model.states.keys()) if (!names.has(name)) model.states.delete(name);
  if (model.chosen && !names.has(model.chosen)) choose(null);
}

function count(now, former) {
  if (!now.counts) return;
  const rate = model.rates.get(now.node) || { time: now.time, events: now.counts.events, value: 0 };
  const at = Date.now();
  if (!rate.at || at - rate.at >= 1000) {
    if (rate.at && former && former.incarnation === now.incarnation) {
      rate.value = Math.max(0, now.counts.events - rate.events) * 1000 / (at - rate.at);
    }
    rate.at = at;
    rate.events = now.counts.events;
  }
  model.rates.set(now.node, rate);
}

// The instant that all panels show: the last state of each node that was entered until then.

function present() {
  if (model.at === null) return model.states;
  const states = new Map();
  for (const step of model.steps) {
    if (step.time > model.at) break;
    if (step.is === 'life' || step.state === undefined) continue;
    states.set(step.node, step);
  }
  for (const [name, state] of model.states) {
    if (!states.has(name) && state.time <= model.at) states.set(name, state);
  }
  // Before the first step that is known: where that came from.
  for (const step of model.steps) {
    if (step.from !== undefined && !states.has(step.node)) {
      states.set(step.node, { node: step.node, state: step.from, time: null });
    }
  }
  return states;
}

const visibleSteps = () =>
  model.at === null ? model.steps : model.steps.filter((step) => step.time <= model.at);

function choose(name) {
  model.chosen = name;
  model.machine = model.enabled = model.letters = null;
  model.message = '';
  show();
  if (!name) return;
  const node = model.topology.nodes.find((one) => one.name === name);
  if (node && node.kind === 'machine') {
    ask('/api/machine?node=' + encodeURIComponent(name)).then((machine) => {
      if (model.chosen === name) { model.machine = machine; show(); }
    }).catch(() => {});
  }
  lookAtChosen();
}

let isLooking = false;
let mustLookAgain = false;
async function lookAtChosen() {
  const name = model.chosen;
  if (!name) return;
  if (isLooking) { mustLookAgain = true; return; }
  isLooking = true;
  try {
    const enabled = await ask('/api/enabled?node=' + encodeURIComponent(name));
    if (model.chosen === name) model.enabled = enabled;
    const state = model.states.get(name);
    if (state && state.counts && state.counts.letters) {
      const letters = await ask('/api/letters?node=' + encodeURIComponent(name));
      if (model.chosen === name) model.letters = letters;
    } else model.letters = null;
  } catch (problem) {
    if (model.chosen === name) model.enabled = { problem: problem.message, events: [] };
  }
  if (!model.frozen) show();
  // Twice a second at most.
  setTimeout(() => {
    isLooking = false;
    if (mustLookAgain) { mustLookAgain = false; lookAtChosen(); }
  }, 500);
}
