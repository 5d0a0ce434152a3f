'use strict';
// The output of nodes, and the orchestrator's notes about nodes. The view follows new lines until
// the user scrolls back.

const LINES = 300;   // The maximum number of lines shown.
const LINE = 300;    // The maximum number of characters of a line, unless the user expands it.
const openLines = new Set();
let heldAt = null;   // The id of the last shown line, while the user has scrolled back; otherwise null.

const streams = { err: 'error output', note: 'orchestrator' };

function wantedLines() {
  const wanted = byId('grep').value.toLowerCase();
  const node = byId('mine').checked ? model.chosen : null;
  return visibleLines().filter((line) => line.skipped ? !wanted : (!node || line.node === node) &&
    (!wanted || line.text.toLowerCase().includes(wanted) || line.node.toLowerCase().includes(wanted)));
}

function showLogs() {
  // A recorded run has no output of its nodes.
  byId('logbox').closest('section').hidden = recordedRun() !== null && !model.lines.length;
  const found = wantedLines();
  if (isAtNewestLine) heldAt = null;
  else if (heldAt === null && found.length) heldAt = found[found.length - 1].id;
  const held = heldAt === null ? found : found.filter((line) => line.id <= heldAt);
  const rows = held.slice(-LINES);
  putRows(byId('logs'), rows.map((line) => ({ key: 'l' + line.id, signature: openLines.has(line.id) + ' ' + isLitLine(line),
    build: () => lineRow(line) })));
  if (isAtNewestLine && rows.length) ends.add(byId('logbox'));
  byId('newest').disabled = heldAt === null;
  const parts = [held.length > LINES ? held.length - LINES + ' earlier' : '',
    found.length > held.length ? found.length - held.length + ' newer' : '',
    found.length ? '' : model.lines.length ? 'No matching lines.' : 'No log lines yet.'];
  say('lines', parts.filter((part) => part).join(', '));
}

function forgetLogs() {
  openLines.clear();
  heldAt = null;
}

function lineRow(line) {
  if (line.skipped) return make('li', { class: 'note' }, line.skipped + ' lines are not shown here');
  const isOpen = openLines.has(line.id);
  const isLong = line.text.length > LINE;
  const toggle = () => {
    if (!openLines.delete(line.id)) openLines.add(line.id);
    show();
  };
  return make('li', { class: line.stream + (isLitLine(line) ? followed ? ' lit' : '' : ' dim') },
    make('span', { class: 'when' }, clock(line.time)), ' ', make('b', null, line.node), ' ',
    streams[line.stream] ? make('i', null, streams[line.stream] + ':') : null, streams[line.stream] ? ' ' : null,
    isLong && !isOpen ? line.text.slice(0, LINE) + '… ' : line.text + ' ',
    isLong ? make('button', { type: 'button', class: 'plain', 'data-key': 'o' + line.id,
      'aria-expanded': isOpen ? 'true' : 'false', onclick: toggle }, isOpen ? 'Less' : 'More') : null,
    line.large && (isOpen || !isLong) ? ' (the beginning of ' + amount(line.large) +
      "; 'orchestrator logs' shows all)" : null);
}

let isAtNewestLine = true;   // Whether the view follows new lines.

function toNewest() {
  isAtNewestLine = true;
  show();
}

// Redraws only if scrolling has changed whether the view follows new lines.
byId('logbox').addEventListener('scroll', () => {
  isAtNewestLine = isAtFloor(byId('logbox'));
  if (isAtNewestLine === (heldAt !== null)) show();
});
