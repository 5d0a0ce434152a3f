'use strict';
// What is taken in

const SAMPLES = 10000;       // What the page remembers of how nodes stood, of all of them.
const TOPOLOGIES = 200;      // And of how they lived.
const PACE = 5e8;            // Between two that are remembered of one node. Nanoseconds.

function take(delta) {
  if (delta.whole) forget();
  model.cursor = delta.cursor;
  model.time = delta.time;
  model.heardAt = performance.now();
  let isSeen = false;
  for (const one of delta.standing) {
    if (one.is === 'topology') takeTopology(one);
    else if (one.is === 'state') {
      const former = model.states.get(one.node);
      model.states.set(one.node, one);
      count(one, former);
      remember(one);
      if (one.node === model.chosen) isSeen = true;
    }
  }
  takeSteps(delta);
  takeLines(delta);
  if (delta.whole && model.chosen) choose(model.chosen);
  else if (isSeen) lookAtChosen();
  show();
}

// Another history begins: no number of the former one means anything in it.
function forget() {
  for (const part of ['states', 'rates', 'places', 'samples']) model[part].clear();
  Object.assign(model, { steps: [], lines: [], topologies: [], skipped: 0, at: null });
  forgetLogs();
}

// Now, by the clock of the topology's machine.
const now = () => model.time + (performance.now() - model.heardAt) * 1e6;

function takeSteps(delta) {
  // What was skipped came before the first step of each node; places without gaps tell of it, too, but not of all.
  const seen = new Set();
  let [inside, before] = [0, 0];
  for (const step of delta.happened) {
    if (step.refused !== undefined) {
      // No step: it has no place among them.
      if (step.skipped) model.skipped += step.skipped;
    } else if (step.place !== undefined) {
      if (seen.has(step.node)) inside += missingBefore(step);
      else before += missingBefore(step);
      seen.add(step.node);
    } else if (step.large) countLarge(step);
    if (step.skipped) continue;
    step.id = model.stepCount += 1;
    model.steps.push(lighten(step));
  }
  model.skipped += inside + Math.max(before, delta.skipped);
  if (delta.happened.length) model.steps.sort((a, b) => (a.time || 0) - (b.time || 0));
  // Who looks back is not to lose what is looked at so soon.
  const most = model.at === null ? KEPT : 5 * KEPT;
  if (model.steps.length > most) model.steps.splice(0, model.steps.length - most);
}

// Steps of a process have places without gaps: what is missing was not told, by whomever.
function missingBefore(step) {
  const last = model.places.get(step.node);
  model.places.set(step.node, { incarnation: step.incarnation, place: step.place });
  return last && last.incarnation === step.incarnation && step.place > last.place
    ? step.place - last.place - (step.skipped ? 0 : 1) : 0;
}

// One that is too large to be told has no place: it is none of those that are missing.
function countLarge(step) {
  const last = model.places.get(step.node);
  if (last && last.incarnation === step.incarnation) last.place += 1;
}

// What the page keeps of a step: what is large by its name alone, and of what was sent where it went.
function lighten(step) {
  for (const part of ['from', 'event', 'state']) {
    if (step[part] === undefined || typeof step[part] !== 'object') continue;
    const length = JSON.stringify(step[part]).length;
    if (length > LARGE) step[part] = { [caseName(step[part]) || '…']: { _0: '… ' + amount(length) } };
  }
  if (step.large && step.state === undefined) step.state = '… ' + amount(step.large);
  for (const sent of step.sent || []) delete sent.event;
  return step;
}

function takeLines(delta) {
  if (delta.unwritten) model.lines.push({ id: nextLine(), skipped: delta.unwritten });
  for (const line of delta.written || []) {
    line.id = nextLine();
    model.lines.push(line);
  }
  // What is looked at stays for a while.
  const kept = model.at !== null || heldAt !== null ? 5 * KEPT_LINES : KEPT_LINES;
  if (model.lines.length > kept) model.lines.splice(0, model.lines.length - kept);
}
let lineCount = 0;
const nextLine = () => (lineCount += 1);

function takeTopology(topology) {
  const former = model.latest;
  const known = new Map(former ? former.nodes.map((node) => [node.name, node]) : []);
  // What is as it was is the same object: many topologies are remembered.
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
  if (chosen && (known.get(chosen.name) || {}).incarnation !== chosen.incarnation) lookAtMachine();
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

// How a node stood, for who looks back: the newest one of each half second.
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

// The instant that all panels show: now, or one that is looked back to.

// Which nodes there are, and how they live.
function topologyThen() {
  if (model.at === null) return model.latest;
  const known = model.topologies.findLast((one) => one.time <= model.at);
  if (known) return known.topology;
  // Before the page was opened: as it was then, but for what has become of nodes since.
  const topology = model.topologies.length ? model.topologies[0].topology : model.latest;
  const later = new Map();
  for (const step of model.steps) {
    if (step.is === 'life' && step.time > model.at && !later.has(step.node)) later.set(step.node, step.former);
  }
  return { ...topology, nodes: topology.nodes.map((node) =>
    later.has(node.name) ? { ...node, ...later.get(node.name), pid: null } : node) };
}

// How a node stood, with what it counted: nothing where the page does not know.
function standingThen(name) {
  if (model.at === null) {
    const rate = model.rates.get(name) || {};
    return { ...model.states.get(name), rate: lively(rate.value, now() - rate.at) };
  }
  const sample = (model.samples.get(name) || []).findLast((one) => one.time <= model.at);
  return sample ? { ...sample.state, rate: lively(sample.rate, model.at - sample.time) } : {};
}
// A node that does nothing tells nothing.
const lively = (rate, age) => typeof rate === 'number' && age > 3e9 ? 0 : rate;

// What each node was in: the last state that it had entered until then.
function present() {
  if (model.at === null) return model.states;
  const states = new Map();
  for (const step of model.steps) {
    if (step.time > model.at) break;
    if (step.is === 'life' || step.state === undefined || step.refused !== undefined) continue;
    states.set(step.node, step);
  }
  for (const node of model.topology.nodes) {
    const [step, then] = [states.get(node.name), standingThen(node.name)];
    if (then.node && (!step || then.time >= step.time)) states.set(node.name, then);
    else if (step) states.set(node.name, { ...step, doubts: then.doubts });
  }
  for (const [name, state] of model.states) {
    if (!states.has(name) && state.time <= model.at) states.set(name, { ...state, doubts: [] });
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
// Lines that were left out have the time of those before them.
const visibleLines = () =>
  model.at === null ? model.lines : model.lines.filter((line) => !line.time || line.time <= model.at);
