'use strict';
// What nodes wrote, and what the orchestrator noted of them. Who has not scrolled sees the newest.

const LINES = 300;   // Lines that are shown.
const LINE = 300;    // Characters of a line that are shown unasked.
const opened = new Set();
let heldAt = null;   // Who has scrolled sees what there was then.

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
  putRows(byId('logs'), rows.map((line) => ({ key: 'l' + line.id, sign: opened.has(line.id),
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

// Nearly is not: who scrolls by a key glides away from there, and would be held back.
const isAtNewest = () => isAtFloor(byId('logbox'));

function toNewest() {
  const box = byId('logbox');
  box.scrollTop = box.scrollHeight;
  show();
}

// Only where that changes what is shown.
byId('logbox').addEventListener('scroll', () => { if (isAtNewest() === (heldAt !== null)) show(); });
