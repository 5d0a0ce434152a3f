'use strict';
// Keys for the entire page. A key that `orchestrator ui` also has does the same there.

const KEYS = [
  ['/', 'search', () => { byId('search').focus(); byId('search').select(); }],
  ['?', 'show these keys', () => byId('keys').showModal()],
  ['j', 'select the next node', () => chooseBy(1)],
  ['k', 'select the previous node', () => chooseBy(-1)],
  ['[', 'go to the cause of the followed event', toCause],
  [']', 'go to the next effect of the followed event', toEffect],
  ['t', 'show the instant of the followed event', () => { if (followed) showInstant(followed.at.time); }],
  [',', 'go back one step in time', () => stepBy(-1)],
  ['.', 'go ahead one step in time', () => stepBy(1)],
  ['p', 'play, or pause', play],
  ['n', 'return to now', () => showInstant(null)],
  ['Escape', 'stop following the event', leaveEvent],
];

// Moves the selection in the order of the table of nodes.
function chooseBy(count) {
  const names = [...document.querySelectorAll('#nodes [data-key^=n]')].map((one) => one.getAttribute('data-key').slice(1));
  if (!names.length) return;
  const index = names.indexOf(model.chosen);
  const next = names[index < 0 ? (count > 0 ? 0 : names.length - 1) : Math.max(0, Math.min(names.length - 1, index + count))];
  choose(next);
  const row = keyed(byId('nodes'), 'n' + next);
  if (row) row.closest('tr').scrollIntoView({ block: 'nearest' });
}

addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented || document.querySelector('dialog[open]')) return;
  const isTyping = event.target.closest('input:not([type=checkbox]), select, textarea');
  if (isTyping || !model.latest) return;
  if (!byId('single').checked && event.key !== 'Escape') return;
  const found = KEYS.find(([key]) => key === event.key);
  if (!found) return;
  event.preventDefault();
  found[2]();
});

byId('keylist').replaceChildren(...KEYS.flatMap(([key, words]) => [make('dt', null, make('kbd', null, key === 'Escape' ? 'Esc' : key)), make('dd', null, words)]));
byId('help').addEventListener('click', () => byId('keys').showModal());
byId('close').addEventListener('click', () => byId('keys').close());
byId('single').checked = localStorage.getItem('keys') !== 'off';
byId('single').addEventListener('change', () => localStorage.setItem('keys', byId('single').checked ? 'on' : 'off'));
