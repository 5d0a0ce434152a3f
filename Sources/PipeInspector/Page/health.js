'use strict';
// The verdict: the root cause of the worst problem. The inspector computes the verdict, as for
// `orchestrator status`.

const INSTANTS = 1000;   // The maximum number of former verdicts in memory.
const SEVERITIES = { failure: 'Failure', warning: 'Warning', note: 'Note' };

function rememberHealth(health) {
  model.health.push({ time: model.time, health });
  if (model.health.length > INSTANTS) model.health.shift();
}

function shownHealth() {
  if (!model.latest.nodes.length) return null;
  const known = model.at === null ? model.health[model.health.length - 1]
    : model.health.findLast((one) => one.time <= model.at);
  return known ? known.health : null;
}

// Whether the topology has ended. If so, the verdict says this, and the last problems are in the
// list.
const hasEnded = () => model.at === null && !model.latest.running && model.latest.nodes.length > 0;

// The sentence about a recorded run, and what its page leaves out.
function runWords({ directory, started, ended }) {
  return 'Recorded run of ' + dateText(started) + ', ' + spanText(ended - started) + ', from the directory ' + directory + '.' +
    (model.skipped ? ' The page leaves out the first ' + counted(model.skipped, 'step') + "; 'orchestrator replay " + directory +
      "' shows all steps." : '');
}

const endWords = ({ phase, reason }) => phase === 'orphaned' ? reason
  : 'The topology has ended' + (reason ? ': ' + reason : '') + '. The page shows what it has recorded.';

function showHealth() {
  const run = recordedRun();
  if (run) { showRun(run); return; }
  const health = shownHealth();
  const found = health ? health.diagnoses : [];
  const urgent = hasEnded() ? [] : found.filter((one) => one.severity !== 'note');
  const style = health && !hasEnded() ? health.severity || 'well' : 'unknown';
  byId('health').className = 'wide ' + style;
  const words = hasEnded() ? endWords(model.topology) : !health ? (model.at === null ? model.topology.reason || 'Not known yet' : 'Not known for this instant')
    : urgent.length ? urgent[0].text : health.summary;
  putRows(byId('verdict'), [{ key: 'verdict', signature: style + words, build: () => make('span', null,
    make('b', { class: 'badge ' + style }, hasEnded() ? model.topology.phase === 'orphaned' ? 'Orphaned' : 'Ended' : SEVERITIES[style] || (health ? 'Well' : 'Unknown')), ' ', words) }]);
  putRows(byId('remedy'), urgent.length ? [remedy(urgent[0])] : []);
  const others = found.filter((one) => one !== urgent[0]);
  byId('more').hidden = !others.length;
  say('more', others.length + ' more');
  byId('problems').hidden = !others.length || byId('more').getAttribute('aria-expanded') !== 'true';
  putRows(byId('problems'), others.map((one) => ({ key: one.severity + one.cause + one.node, signature: JSON.stringify(one) +
    model.readOnly + model.latest.running, build: () => make('li', null, make('b', { class: 'badge ' + one.severity }, SEVERITIES[one.severity]), ' ',
    one.text, ' ', remedy(one).build()) })));
}

function showRun(run) {
  byId('health').className = 'wide unknown';
  const words = runWords(run);
  putRows(byId('verdict'), [{ key: 'verdict', signature: words, build: () => make('span', null, make('b', { class: 'badge unknown' }, 'Recorded'), ' ', words) }]);
  putRows(byId('remedy'), []);
  byId('more').hidden = true;
  byId('problems').hidden = !run.notes.length;
  putRows(byId('problems'), run.notes.map(({ node, text }, index) => ({ key: index, signature: text, build: () =>
    make('li', null, make('b', { class: 'badge warning' }, SEVERITIES.warning), ' ', text, ' ',
      node ? remedy({ node }).build() : null) })));
}

function remedy(diagnosis) {
  const canStart = diagnosis.starts && !model.readOnly && model.at === null && model.latest.running;
  const label = canStart ? 'Start ' + diagnosis.starts : 'Show ' + diagnosis.node;
  return { key: label, signature: label, build: () => make('button', { type: 'button', 'data-key': label,
    onclick: () => canStart ? startNode(diagnosis.starts) : showSelected(diagnosis.node) }, label) };
}

async function startNode(name) {
  byId('answer').textContent = 'Starting ' + name + '…';
  try {
    await ask('/api/control', { node: name, action: 'start' });
    byId('answer').textContent = name + ' was started.';
  } catch (error) { byId('answer').textContent = error.message; }
}

function showSelected(name) {
  choose(name);
  byId('detail').scrollIntoView({ block: 'nearest' });
}

byId('more').addEventListener('click', () => {
  const button = byId('more');
  button.setAttribute('aria-expanded', button.getAttribute('aria-expanded') !== 'true');
  show();
});
