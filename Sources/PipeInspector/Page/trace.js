'use strict';
// The causes and effects of steps, and the event that the user follows through all panels.

const CAUSES = 20;     // The maximum length of the chain of causes that a followed event shows.
const EFFECTS = 200;   // The maximum number of steps that a followed event shows after its first step.

// `sent`: the step that sent an event, by the event. `entered`: the last step to a version. `groups`: the steps of a
// synchronized event. `orphans`: steps whose cause has not arrived yet, by the event that they processed.
const causality = { sent: new Map(), entered: new Map(), groups: new Map(), orphans: new Map() };

const keyOf = (event) => event.pipe + ' ' + event.stream + ' ' + event.number;
// The name of the machine that has taken a step: an instance such as `orders[4711]`, or a node.
const nameOf = (step) => step.instance || step.node;
const versionOf = (step, version) => nameOf(step) + ' ' + version;
const isStep = (step) => step.is === undefined && step.refused === undefined;

// The numbers of transactions are unique among the composites that share nodes.
function groupOf(step) {
  const id = typeof step.transaction === 'string' ? step.transaction : JSON.stringify(step.transaction);
  return (coordinators.get(step.node) || step.node) + ' ' + id;
}
let coordinators = new Map();   // For each node and composite, the first composite that shares nodes with it.

function indexCoordinators(topology) {
  coordinators = new Map();
  for (const { name, nodes } of topology.composites || []) {
    const first = [name, ...nodes].map((one) => coordinators.get(one)).find((one) => one !== undefined) || name;
    const merged = new Set([name, ...nodes].map((one) => coordinators.get(one)));
    for (const [one, other] of coordinators) if (merged.has(other)) coordinators.set(one, first);
    for (const one of [name, ...nodes]) coordinators.set(one, first);
  }
}

// Links a new step with its cause and its effects. The steps of different nodes arrive in any order.
function link(step) {
  step.results = [];
  for (const event of step.sent || []) {
    const key = keyOf(event);
    causality.sent.set(key, step);
    for (const orphan of causality.orphans.get(key) || []) join(step, orphan);
    causality.orphans.delete(key);
  }
  if (step.source) {
    const key = keyOf(step.source);
    const origin = causality.sent.get(key);
    if (origin) join(origin, step);
    else if (causality.orphans.has(key)) causality.orphans.get(key).push(step);
    else causality.orphans.set(key, [step]);
  } else if (step.effect !== undefined) {
    const origin = causality.entered.get(versionOf(step, step.effect));
    if (origin) join(origin, step);
  }
  if (!isStep(step)) return;
  if (step.version !== undefined) causality.entered.set(versionOf(step, step.version), step);
  if (step.transaction) {
    const key = groupOf(step);
    if (!causality.groups.has(key)) causality.groups.set(key, []);
    step.together = causality.groups.get(key);
    step.together.push(step);
  }
}

function join(origin, step) {
  step.origin = origin;
  origin.results.push(step);
}

// Forgets a step that the page no longer keeps. Followed steps keep their own links.
function unlink(step) {
  for (const event of step.sent || []) causality.sent.delete(keyOf(event));
  if (step.source) causality.orphans.delete(keyOf(step.source));
  const key = versionOf(step, step.version);
  if (causality.entered.get(key) === step) causality.entered.delete(key);
  if (step.together) causality.groups.delete(groupOf(step));
  for (const result of step.results || []) if (result.origin === step) result.origin = undefined;
}

function forgetCausality() {
  for (const part of Object.values(causality)) part.clear();
  followed = null;
}

// The followed event

let followed = null;   // { start, at, steps, causes, effects, nodes, pipes, isCut }; `at` is the step in focus.

function follow(step, at) {
  if (!step || step.is !== undefined) return;
  followed = { start: step, at: at || step, count: -1 };
  updateFollowed();
  show();
}

function leaveEvent() {
  if (!followed) return;
  followed = null;
  show();
}

// Finds the causes and effects again, because effects may have arrived since.
function updateFollowed() {
  if (!followed || followed.count === model.stepCount) return;
  const { start } = followed;
  const all = new Set();
  const add = (step) => {
    const found = [step, ...(step.together || [])].filter((one) => !all.has(one));
    for (const one of found) all.add(one);
    return found;
  };
  let open = add(start);
  for (let level = 0; level < CAUSES && open.length; level += 1) {
    open = open.flatMap((step) => step.origin && !all.has(step.origin) ? add(step.origin) : []);
  }
  const isCut = open.length > 0;
  const causes = all.size - 1;
  const limit = all.size + EFFECTS;
  open = [start, ...(start.together || [])];
  while (open.length && all.size < limit) {
    open = open.flatMap((step) => step.results.flatMap((one) => all.has(one) ? [] : add(one)));
  }
  const steps = [...all].sort((a, b) => a.time - b.time || a.id - b.id);
  const [nodes, pipes] = [new Set(steps.map((step) => step.node)), new Set()];
  for (const step of steps) {
    if (step.source && all.has(step.origin)) pipes.add(step.source.pipe);
    for (const event of step.sent || []) if (!step.results.some((one) => one.source && keyOf(one.source) === keyOf(event))) {
      pipes.add(event.pipe);
    }
  }
  Object.assign(followed, { steps, all, nodes, pipes, causes, effects: all.size - 1 - causes, isCut, hasMore: open.length > 0,
    count: model.stepCount });
  if (!all.has(followed.at)) followed.at = start;
}

const isDimmed = (step) => followed !== null && !followed.all.has(step);

// Moves the focus to the cause or to an effect of the step in focus. Repeated calls visit all
// effects.
function toCause() {
  if (!followed) return;
  const origins = [followed.at, ...(followed.at.together || [])].map((one) => one.origin).filter((one) => one);
  if (origins.length) focusStep(origins[0]);
}
function toEffect() {
  if (!followed) return;
  const results = [followed.at, ...(followed.at.together || [])].flatMap((one) => one.results);
  if (results.length) { focusStep(results[0]); return; }
  // At the end of a chain, continues with the next step that has another cause.
  const next = followed.steps[followed.steps.indexOf(followed.at) + 1];
  if (next) focusStep(next);
}
function focusStep(step) {
  if (!followed.all.has(step)) { follow(step); return; }
  followed.at = step;
  reveal(step);
  if (model.at !== null) model.at = step.time;
  show();
}

const eventName = (step) => step.event === undefined ? step.cause || 'a step' : short(step.event, 40);

// One sentence about a step, for the bar of the followed event and for screen readers.
function stepSentence(step) {
  if (step.is === 'life') return step.node + ' ' + step.phase;
  const from = step.effect !== undefined ? ' by an effect' : step.origin ? ' from ' + nameOf(step.origin)
    : step.cause && step.event !== undefined ? ' (' + step.cause + ')' : '';
  if (step.refused !== undefined) {
    return nameOf(step) + (step.postponed ? ' postponed ' : ' refused ') + eventName(step) + from + ': ' +
      String(step.refused).replace(/^refused: /, '');
  }
  return nameOf(step) + ': ' + eventName(step) + from + ', ' + (step.from === undefined ? '' : short(step.from, 40) + ' → ') +
    short(step.state, 60) + (step.together && step.together.length > 1
    ? ', together with ' + step.together.filter((one) => one !== step).map(nameOf).join(', ') : '');
}

function showFollowed() {
  updateFollowed();
  byId('follow').hidden = !followed;
  document.body.classList.toggle('following', followed !== null);
  if (!followed) return;
  const { at, causes, effects, isCut, hasMore } = followed;
  const words = clock(at.time) + '  ' + stepSentence(at);
  const counts = (isCut ? 'more than ' : '') + counted(causes, 'cause') + ', ' + (hasMore ? 'more than ' : '') +
    counted(effects, 'effect');
  if (byId('story').dataset.words !== words + counts) {
    byId('story').dataset.words = words + counts;
    put(byId('story'), make('b', null, words), ' ', make('span', { class: 'quiet' }, counts));
  }
  const group = [at, ...(at.together || [])];
  byId('cause').disabled = !group.some((one) => one.origin);
  byId('effect').disabled = !group.some((one) => one.results.length) &&
    followed.steps.indexOf(at) === followed.steps.length - 1;
}

// Whether a log line was written after a followed step of its node, and before the next step of the node.
function isLitLine(line) {
  if (!followed) return true;
  if (!followed.nodes.has(line.node) || !line.time) return false;
  const steps = model.steps;
  for (let index = indexBefore(line.time + 5e6); index >= 0; index -= 1) {
    if (steps[index].node === line.node && isStep(steps[index])) return followed.all.has(steps[index]);
  }
  return false;
}

// Returns the index of the last step that is not later than a time; -1 if there is none.
function indexBefore(time) {
  let [low, high] = [0, model.steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((model.steps[middle].time || 0) <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// Follows the last event of some pipes.
function followPipes(names) {
  const wanted = new Set(names);
  for (let index = (model.at === null ? model.steps.length : indexBefore(model.at) + 1) - 1; index >= 0; index -= 1) {
    const step = model.steps[index];
    if (step.source && wanted.has(step.source.pipe)) { follow(step.origin || step, step); return; }
    if ((step.sent || []).some((event) => wanted.has(event.pipe))) { follow(step); return; }
  }
  byId('answer').textContent = 'No event of ' + names.join(', ') + ' was recorded yet.';
}

byId('cause').addEventListener('click', toCause);
byId('effect').addEventListener('click', toEffect);
byId('leave').addEventListener('click', leaveEvent);
byId('instant').addEventListener('click', () => { if (followed) showInstant(followed.at.time); });
