'use strict';
// Saves what the page shows as a JSON file: the topology at the shown instant, and the steps and log lines of the shown
// time, or of the followed event.

function shownContents() {
  const states = shownStates();
  const range = shownRange();
  const isShown = (time) => time >= range.from && time <= (model.at === null ? range.to : Math.min(range.to, model.at));
  const health = shownHealth();
  return {
    format: 1, topology: model.topology.topology, file: model.topology.file, phase: model.topology.phase, reason: model.topology.reason,
    saved: new Date().toISOString(), instant: model.at === null ? null : timeText(model.at),
    from: timeText(range.from), to: timeText(range.to),
    followed: followed && nameOf(followed.start) + '@' + followed.start.version, verdict: health && health.diagnoses,
    nodes: model.topology.nodes.map((node) => nodeContents(node, states.get(node.name) || {})),
    composites: model.topology.composites || [], pipes: model.topology.pipes.map(pipeContents),
    steps: (followed ? followed.steps : visibleSteps().filter((step) => isShown(step.time))).map(stepContents),
    lines: visibleLines().filter((line) => line.skipped || isShown(line.time)).map(({ id, ...line }) => line),
    missingSteps: model.skipped,
  };
}

const timeText = (time) => new Date(Math.round(time / 1e6)).toISOString();

function nodeContents(node, state) {
  const { counts } = shownNodeState(node.name);
  return { ...node, state: state.state, version: state.version, since: state.time, cause: state.cause, doubts: state.doubts, counts };
}

function pipeContents(pipe) {
  const ends = pipeEnds(pipe.name);
  return { ...pipe, inFlight: ends.underWay, isFull: Boolean(ends.full), sent: ends.out && ends.out.events, applied: ends.out && ends.out.applied };
}

// A step without its links to other steps.
function stepContents({ id, origin, results, together, ...step }) {
  return step;
}

function saveContents() {
  if (!model.latest) return;
  const contents = shownContents();
  const address = URL.createObjectURL(new Blob([JSON.stringify(contents, null, 1)], { type: 'application/json' }));
  const link = make('a', { href: address, download: model.topology.topology + '-' + contents.saved.replace(/[:.]/g, '-') + '.json' });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  byId('answer').textContent = 'Saved ' + counted(contents.steps.length, 'step') + ' and ' + counted(contents.lines.length, 'log line') + '.';
}
byId('save').addEventListener('click', saveContents);
