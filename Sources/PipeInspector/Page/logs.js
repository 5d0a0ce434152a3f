'use strict';
// The output of nodes, and the orchestrator's notes about them. Follows the newest line until the user scrolls.

const LINES = 300;   // The maximum number of lines shown.
const LINE = 300;    // The number of characters of a line shown until it is expanded.
const opened = new Set();
let heldAt = null;   // The id of the last line shown while the user has scrolled back, or null.

const streams = { err: 'error output', note: 'orchestrator' };

function wantedLines() {
  const wanted = byId('grep').value.toLowerCase();
  const node = byId('mine').checked ? model.chosen : null;
  return visibleLines().filter((line) => line.skipped ? !wanted : (!node || line.node === node) &&
    (!wanted || line.text.toLowerCase().includes(wanted) || line.node.toLowerCase().includes(wanted)));
}

function showLogs() {
  const box = byId('logbox');
  const found = wantedLines();
  const isAtEnd = isAtNewest();
  if (isAtEnd) heldAt = null;
  else if (heldAt === null && found.length) heldAt = found[found.length - 1].id;
  const held = heldAt === null ? found : found.filter((line) => line.id <= heldAt);
  const rows = held.slice(-LINES);
  putRows(byId('logs'), rows.map((line) => ({ key: 'l' + line.id, signature: opened.has(line.id),
    build: () => lineRow(line) })));
  if (isAtEnd && !isAtNewest()) box.scrollTop = box.scrollHeight;
  byId('newest').hidden = heldAt === null;
  const parts = [held.length > LINES ? held.length - LINES + ' earlier' : '',
    found.length > held.length ? found.length - held.length + ' newer' : '',
    found.length ? '' : model.lines.length ? 'No matching lines.' : 'No log lines yet.'];
  byId('lines').textContent = parts.filter((part) => part).join(', ');
}

function forgetLogs() {
  opened.clear();
  heldAt = null;
}

function lineRow(line) {
  if (line.skipped) return make('li', { class: 'note' }, line.skipped + ' lines are not shown here');
  const isOpen = opened.has(line.id);
  const isLong = line.text.length > LINE;
  const toggle = () => {
    if (!opened.delete(line.id)) opened.add(line.id);
    show();
  };
  return make('li', { class: line.stream },
    make('span', { class: 'when' }, clock(line.time)), ' ', make('b', null, line.node), ' ',
    streams[line.stream] ? make('i', null, streams[line.stream] + ':') : null, streams[line.stream] ? ' ' : null,
    isLong && !isOpen ? line.text.slice(0, LINE) + '… ' : line.text + ' ',
    isLong ? make('button', { type: 'button', class: 'plain', 'data-key': 'o' + line.id,
      'aria-expanded': isOpen ? 'true' : 'false', onclick: toggle }, isOpen ? 'Less' : 'More') : null,
    line.large && (isOpen || !isLong) ? ' (the beginning of ' + amount(line.large) +
      "; 'orchestrator logs' shows all)" : null);
}

// Exact: scrolling by a key moves gradually, and a tolerance would pull the view back to the end.
const isAtNewest = () => isAtFloor(byId('logbox'));

function toNewest() {
  const box = byId('logbox');
  box.scrollTop = box.scrollHeight;
  show();
}

// Redraw only if scrolling changes what is shown.
byId('logbox').addEventListener('scroll', () => { if (isAtNewest() === (heldAt !== null)) show(); });
