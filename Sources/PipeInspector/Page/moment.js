'use strict';
// Updates from the inspector

const SAMPLES = 10000;       // The maximum number of node states in memory, for all nodes together.
const TOPOLOGIES = 200;      // The maximum number of topologies in memory.
const PACE = 5e8;            // The minimum time between two samples of one node. Unit: nanoseconds.

function applyDelta(delta) {
  if (delta.whole) forget();
  model.cursor = delta.cursor;
  model.time = delta.time;
  model.receivedAt = performance.now();
  let isSeen = false;
  for (const one of delta.standing) {
    if (one.is === 'topology') applyTopology(one);
    else if (one.is === 'state') {
      const former = model.states.get(one.node);
      model.states.set(one.node, one);
      count(one, former);
      remember(one);
      if (one.node === model.chosen) isSeen = true;
    }
  }
  addSteps(delta);
  addLines(delta);
  if (delta.whole && model.chosen) choose(model.chosen);
  else if (isSeen) fetchSelected();
  show();
}

// Discards the history when the inspector starts a new one, in which the former numbers have no meaning.
function forget() {
  for (const part of ['states', 'rates', 'places', 'samples']) model[part].clear();
  Object.assign(model, { steps: [], lines: [], topologies: [], skipped: 0, at: null });
  forgetLogs();
}

// The current time by the clock of the topology's host.
const now = () => model.time + (performance.now() - model.receivedAt) * 1e6;

function addSteps(delta) {
  // Skipped steps precede the first step of each node. Gaps in the places show some of them, but not all.
  const seen = new Set();
  let [inside, before] = [0, 0];
  for (const step of delta.happened) {
    if (step.refused !== undefined) {
      // A refusal is no step and has no index.
      if (step.skipped) model.skipped += step.skipped;
    } else if (step.index !== undefined) {
      if (seen.has(step.node)) inside += missingBefore(step);
      else before += missingBefore(step);
      seen.add(step.node);
    } else if (step.large) countLarge(step);
    if (step.skipped) continue;
    step.id = model.stepCount += 1;
    model.steps.push(trimStep(step));
  }
  model.skipped += inside + Math.max(before, delta.skipped);
  if (delta.happened.length) model.steps.sort((a, b) => (a.time || 0) - (b.time || 0));
  // Keep more steps while the user looks back.
  const most = model.at === null ? MAX_STEPS : 5 * MAX_STEPS;
  if (model.steps.length > most) model.steps.splice(0, model.steps.length - most);
}

// Counts the missing steps before a step. The steps of a process have consecutive places, so a gap means missing steps.
function missingBefore(step) {
  const last = model.places.get(step.node);
  model.places.set(step.node, { incarnation: step.incarnation, index: step.index });
  return last && last.incarnation === step.incarnation && step.index > last.index
    ? step.index - last.index - (step.skipped ? 0 : 1) : 0;
}

// A step that is too large to be reported has no index, and must not count as missing.
function countLarge(step) {
  const last = model.places.get(step.node);
  if (last && last.incarnation === step.incarnation) last.index += 1;
}

// Removes the parts of a step that the page does not keep: large states and events except their labels, and the values
// of sent events.
function trimStep(step) {
  for (const part of ['from', 'event', 'state']) {
    if (step[part] === undefined || typeof step[part] !== 'object') continue;
    const length = JSON.stringify(step[part]).length;
    if (length > LARGE) step[part] = { [caseName(step[part]) || '…']: { _0: '… ' + amount(length) } };
  }
  if (step.large && step.state === undefined) step.state = '… ' + amount(step.large);
  for (const sent of step.sent || []) delete sent.event;
  return step;
}

function addLines(delta) {
  if (delta.unwritten) model.lines.push({ id: nextLine(), skipped: delta.unwritten });
  for (const line of delta.written || []) {
    line.id = nextLine();
    model.lines.push(line);
  }
  // Keep more lines while the user looks back.
  const kept = model.at !== null || heldAt !== null ? 5 * MAX_LINES : MAX_LINES;
  if (model.lines.length > kept) model.lines.splice(0, model.lines.length - kept);
}
let lineCount = 0;
const nextLine = () => (lineCount += 1);

function applyTopology(topology) {
  const former = model.latest;
  const known = new Map(former ? former.nodes.map((node) => [node.name, node]) : []);
  // Share unchanged nodes between topologies, to save memory.
  topology.nodes = topology.nodes.map((node) => {
    const one = known.get(node.name);
    return one && JSON.stringify(one) === JSON.stringify(node) ? one : node;
  });
  if (former && JSON.stringify(former.pipes) === JSON.stringify(topology.pipes)) topology.pipes = former.pipes;
  model.latest = topology;
  model.topologies.push({ time: model.time, topology });
  if (model.topologies.length > TOPOLOGIES) model.topologies.shift();
  const names = new Set(topology.nodes.map((node) => node.name));
  for (const name of model.states.keys()) if (!names.has(name)) model.states.delete(name);
  const chosen = topology.nodes.find((node) => node.name === model.chosen);
  if (chosen && (known.get(chosen.name) || {}).incarnation !== chosen.incarnation) fetchMachine();
}

function count(one, former) {
  if (!one.counts) return;
  const rate = model.rates.get(one.node) || { events: one.counts.events, value: null };
  if (!rate.at || model.time - rate.at >= 1e9) {
    if (rate.at && former && former.incarnation === one.incarnation) {
      rate.value = Math.max(0, one.counts.events - rate.events) * 1e9 / (model.time - rate.at);
    }
    rate.at = model.time;
    rate.events = one.counts.events;
  }
  model.rates.set(one.node, rate);
}

// Keeps a sample of a node's state for looking back: the newest of each half second.
function remember(state) {
  if (!model.samples.has(state.node)) model.samples.set(state.node, []);
  const samples = model.samples.get(state.node);
  const rate = (model.rates.get(state.node) || {}).value;
  const last = samples.length - 1;
  const sample = { time: model.time, state, rate };
  if (last > 0 && model.time - samples[last - 1].time < PACE) samples[last] = sample;
  else samples.push(sample);
  const most = Math.max(20, Math.floor(SAMPLES / Math.max(1, model.samples.size)));
  if (samples.length > most) samples.splice(0, samples.length - most);
}

// The instant that all panels show: now, or an earlier instant

// Returns the topology at the shown instant.
function shownTopology() {
  if (model.at === null) return model.latest;
  const known = model.topologies.findLast((one) => one.time <= model.at);
  if (known) return known.topology;
  // For an instant before the page was opened, undo the later phase changes.
  const topology = model.topologies.length ? model.topologies[0].topology : model.latest;
  const later = new Map();
  for (const step of model.steps) {
    if (step.is === 'life' && step.time > model.at && !later.has(step.node)) later.set(step.node, step.former);
  }
  return { ...topology, nodes: topology.nodes.map((node) =>
    later.has(node.name) ? { ...node, ...later.get(node.name), pid: null } : node) };
}

// Returns a node's state and counters at the shown instant; {} if unknown.
function shownNodeState(name) {
  if (model.at === null) {
    const rate = model.rates.get(name) || {};
    return { ...model.states.get(name), rate: currentRate(rate.value, now() - rate.at) };
  }
  const sample = (model.samples.get(name) || []).findLast((one) => one.time <= model.at);
  return sample ? { ...sample.state, rate: currentRate(sample.rate, model.at - sample.time) } : {};
}
// An idle node sends no updates, so its last rate expires.
const currentRate = (rate, age) => typeof rate === 'number' && age > 3e9 ? 0 : rate;

// Returns the last state that each node had entered by the shown instant.
function shownStates() {
  if (model.at === null) return model.states;
  const states = new Map();
  for (const step of model.steps) {
    if (step.time > model.at) break;
    if (step.is === 'life' || step.state === undefined || step.refused !== undefined) continue;
    states.set(step.node, step);
  }
  for (const node of model.topology.nodes) {
    const [step, then] = [states.get(node.name), shownNodeState(node.name)];
    if (then.node && (!step || then.time >= step.time)) states.set(node.name, then);
    else if (step) states.set(node.name, { ...step, doubts: then.doubts });
  }
  for (const [name, state] of model.states) {
    if (!states.has(name) && state.time <= model.at) states.set(name, { ...state, doubts: [] });
  }
  // Before a node's first known step, show the source state of that step.
  for (const step of model.steps) {
    if (step.from !== undefined && !states.has(step.node)) {
      states.set(step.node, { node: step.node, state: step.from, time: null });
    }
  }
  return states;
}

const visibleSteps = () =>
  model.at === null ? model.steps : model.steps.filter((step) => step.time <= model.at);
// Markers of skipped lines have no time, and are always visible.
const visibleLines = () =>
  model.at === null ? model.lines : model.lines.filter((line) => !line.time || line.time <= model.at);
