'use strict';
// Updates from the inspector

const SAMPLES = 10000;       // The maximum number of node states in memory, over all nodes.
const TOPOLOGIES = 200;      // The maximum number of versions of the topology in memory.
const PACE = 5e8;            // The minimum time between two samples of a node. Unit: nanoseconds.

function applyDelta(delta) {
  if (delta.whole) forget();
  model.cursor = delta.cursor;
  model.time = delta.time;
  model.receivedAt = performance.now();
  let isSeen = false;
  for (const one of delta.standing) {
    if (one.is === 'topology') applyTopology(one);
    else if (one.is === 'health') rememberHealth(one);
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
  showUpdate();
}

// Discards the page's history, because the inspector has started a new history with other numbers.
function forget() {
  for (const part of ['states', 'rates', 'pipeRates', 'places', 'samples']) model[part].clear();
  Object.assign(model, { steps: [], lines: [], topologies: [], health: [], takeovers: [], ignored: [], skipped: 0, at: null });
  forgetLogs();
  forgetCausality();
  forgetLanes();
  forgetPulses();
  forgetSequence();
}

// The current time, according to the clock of the topology's host. Unit: nanoseconds since 1970.
const now = () => model.time + (recordedRun() ? 0 : (performance.now() - model.receivedAt) * 1e6);

// The recorded run that the page shows: { directory, started, ended, notes }; `null` for a running topology.
const recordedRun = () => (model.latest && model.latest.run) || null;

function addSteps(delta) {
  // The first known step of each node may follow steps that the inspector skipped. Gaps between the
  // indices of steps reveal some skipped steps, but not all.
  const seen = new Set();
  let [inside, before] = [0, 0];
  let isSorted = true;
  for (const step of delta.happened) {
    if (step.is === 'takeover') { model.takeovers.push(step); continue; }
    if (step.is === 'ignored') { model.ignored.push(step); continue; }
    if (step.refused !== undefined) {
      // A refusal is not a step, so it has no index.
      if (step.skipped) model.skipped += step.skipped;
    } else if (step.index !== undefined) {
      if (seen.has(step.node)) inside += missingBefore(step);
      else before += missingBefore(step);
      seen.add(step.node);
    } else if (step.large) countLarge(step);
    if (step.skipped) continue;
    step.id = model.stepCount += 1;
    const last = model.steps[model.steps.length - 1];
    if (last && (last.time || 0) > (step.time || 0)) isSorted = false;
    model.steps.push(trimStep(step));
    link(step);
    addToLane(step);
    if (!delta.whole && model.at === null && !document.hidden) notePulses(step);
  }
  model.skipped += inside + Math.max(before, delta.skipped);
  if (!isSorted) model.steps.sort((a, b) => (a.time || 0) - (b.time || 0) || a.id - b.id);
  // More steps are kept while the user looks at an earlier instant, follows an event, or has scrolled back.
  const most = model.at === null && !followed && isAtNewestStep() && !recordedRun() ? MAX_STEPS : 5 * MAX_STEPS;
  if (model.steps.length <= most) return;
  const removed = model.steps.splice(0, model.steps.length - most);
  if (recordedRun()) model.skipped += removed.length;
  for (const step of removed) unlink(step);
  cutLanes(removed);
}

// Returns the number of steps that are missing before a step. The steps of a process have
// consecutive indices, so a gap means missing steps.
function missingBefore(step) {
  const last = model.places.get(step.node);
  model.places.set(step.node, { incarnation: step.incarnation, index: step.index });
  return last && last.incarnation === step.incarnation && step.index > last.index
    ? step.index - last.index - (step.skipped ? 0 : 1) : 0;
}

// Counts a step that was too large to be reported. Such a step has no index, but must not be
// counted as missing.
function countLarge(step) {
  const last = model.places.get(step.node);
  if (last && last.incarnation === step.incarnation) last.index += 1;
}

// Removes the parts of a step that the page does not keep: large states and events, except their
// labels, and the values of sent events.
function trimStep(step) {
  for (const part of ['from', 'event', 'state']) {
    if (step[part] === undefined || typeof step[part] !== 'object') continue;
    const length = JSON.stringify(step[part]).length;
    if (length > LARGE) step[part] = { [caseName(step[part]) || '…']: { _0: '… ' + amount(length) } };
  }
  if (step.large && step.state === undefined) step.state = '… ' + amount(step.large);
  for (const sent of step.sent || []) {
    if (sent.event !== undefined) sent.name = caseName(sent.event);
    delete sent.event;
  }
  return step;
}

function addLines(delta) {
  if (delta.unwritten) model.lines.push({ id: nextLine(), skipped: delta.unwritten });
  for (const line of delta.written || []) {
    line.id = nextLine();
    model.lines.push(line);
  }
  // More lines are kept while the user looks at an earlier instant.
  const kept = model.at !== null || heldAt !== null ? 5 * MAX_LINES : MAX_LINES;
  if (model.lines.length > kept) model.lines.splice(0, model.lines.length - kept);
}
let lineCount = 0;
const nextLine = () => (lineCount += 1);

function applyTopology(topology) {
  const former = model.latest;
  const known = new Map(former ? former.nodes.map((node) => [node.name, node]) : []);
  // Versions of the topology share unchanged nodes, to save memory.
  topology.nodes = topology.nodes.map((node) => {
    const one = known.get(node.name);
    return one && JSON.stringify(one) === JSON.stringify(node) ? one : node;
  });
  if (former && JSON.stringify(former.pipes) === JSON.stringify(topology.pipes)) topology.pipes = former.pipes;
  model.latest = topology;
  indexCoordinators(topology);
  machines = new Map(topology.nodes.map((node) => [node.name, node.hosts]));
  model.topologies.push({ time: model.time, topology });
  if (model.topologies.length > TOPOLOGIES) model.topologies.shift();
  const names = new Set(topology.nodes.map((node) => node.name));
  for (const name of model.states.keys()) if (!names.has(name)) model.states.delete(name);
  const chosen = topology.nodes.find((node) => node.name === model.chosen);
  if (chosen && (known.get(chosen.name) || {}).incarnation !== chosen.incarnation) fetchChart();
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
    countPipes(one, former);
  }
  model.rates.set(one.node, rate);
}

// Computes the rates of a node's outbound pipes.
function countPipes(one, former) {
  for (const end of one.counts.outs || []) {
    const last = model.pipeRates.get(end.name);
    const isKnown = last && former && former.incarnation === one.incarnation && model.time > last.at;
    model.pipeRates.set(end.name, { at: model.time, events: end.events,
      value: isKnown ? Math.max(0, end.events - last.events) * 1e9 / (model.time - last.at) : null });
  }
}

// Returns the rate of a pipe; `null` if it is unknown.
function pipeRate(name) {
  const rate = model.pipeRates.get(name);
  return rate && model.at === null ? currentRate(rate.value, now() - rate.at) : null;
}

// Keeps samples of a node's states, so that the user can look back. Of each half second, only the
// newest state is kept.
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

// The instant that all panels show: the present, or an earlier instant that the user has selected.

// Returns the topology at the shown instant.
function shownTopology() {
  if (model.at === null) return model.latest;
  const known = model.topologies.findLast((one) => one.time <= model.at);
  if (known) return known.topology;
  // If the instant is before the page was opened, later changes of the nodes' phases are undone.
  const topology = model.topologies.length ? model.topologies[0].topology : model.latest;
  const later = new Map();
  for (const step of model.steps) {
    if (step.is === 'life' && step.time > model.at && !later.has(step.node)) later.set(step.node, step.former);
  }
  return { ...topology, nodes: topology.nodes.map((node) =>
    later.has(node.name) ? { ...node, ...later.get(node.name), pid: null } : node) };
}

// Returns a node's state and counters at the shown instant; `{}` if they are unknown.
function shownNodeState(name) {
  if (model.at === null) {
    const rate = model.rates.get(name) || {};
    return { ...model.states.get(name), rate: currentRate(rate.value, now() - rate.at) };
  }
  const sample = (model.samples.get(name) || []).findLast((one) => one.time <= model.at);
  return sample ? { ...sample.state, rate: currentRate(sample.rate, model.at - sample.time) } : {};
}
// Returns a node's event rate. An idle node sends no updates, so if the last rate is old, the rate
// is 0.
const currentRate = (rate, age) => typeof rate === 'number' && age > 3e9 ? 0 : rate;

// Returns the state of each node at the shown instant.
function shownStates() {
  if (model.at === null) return model.states;
  const states = new Map();
  for (const step of model.steps) {
    if (step.time > model.at) break;
    // A step of an instance is not the state of its node.
    if (step.state === undefined || step.instance || !isStep(step)) continue;
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
  // For an instant before a node's first known step, the state is the state before that step.
  for (const step of model.steps) {
    if (step.from !== undefined && !step.instance && !states.has(step.node)) {
      states.set(step.node, { node: step.node, state: step.from, time: null });
    }
  }
  return states;
}

const visibleSteps = () =>
  model.at === null ? model.steps : model.steps.slice(0, indexBefore(model.at) + 1);
// Entries that mark skipped lines have no time, and are always visible.
const visibleLines = () =>
  model.at === null ? model.lines : model.lines.filter((line) => !line.time || line.time <= model.at);
