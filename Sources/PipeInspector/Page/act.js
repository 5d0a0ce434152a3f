'use strict';
// Commands to a node: buttons send events, resend or drop dead letters, and control the node's process.

// Events

const verdicts = { enabled: '✓ takes it', ignored: '– ignores it', blocked: '✗ blocks it', dependsOnValue: '? by its values',
  undetermined: '? known only when it runs' };
let openEvent = null;   // The event whose form is open, and the form's node.
let formNode = null;    // The last node whose events were shown.

const eventKey = (node, event) => [node.name, event.event, event.composite, event.participants].join('\n');

function eventParts(node) {
  if (!model.enabled) return [{ key: 'events', signature: 'none', build: () => make('div', { class: 'events' }) }, resultPart];
  const { error, events, timer } = model.enabled;
  const parts = error ? [part('error', error, 'note')] : [];
  if (timer && !error) {
    parts.push(part('timer', 'after ' + timer.after + ': ' + (timer.target || 'a transition') + ' at ' + clock(timer.due), 'note'));
  }
  // The events stay while the node is down, because removing them would move the focus out of the form.
  if (events.length && formNode !== node.name) {
    formNode = node.name;
    // The only event of a node needs no click to open its form.
    if (events.length === 1 && events[0].fields.length && events[0].verdict !== 'blocked') openEvent = eventKey(node, events[0]);
  }
  if (events.length) {
    parts.push({ key: 'title', signature: '', build: () => make('h3', null, 'Events') });
    for (const [index, event] of events.entries()) parts.push(eventRow(node, event, index));
  }
  return parts.concat(resultPart);
}
const resultPart = { key: 'said', signature: '', build: () => make('p', { id: 'said', role: 'status' }) };

// Problems and reasons are in words beside the event.
function eventRow(node, event, index) {
  const key = eventKey(node, event);
  const fields = event.fields.map((field) => field.name + ': ' + field.type).join(', ');
  const label = event.event + (fields ? '(' + fields + ')' : '');
  const why = event.because.map((one) => (one.participant === node.name ? '' : one.participant + ' in ' + short(one.state, 40) + ': ') +
    one.reason).join('; ') || (event.composite ? 'together: ' + event.participants.join(', ') : '');
  const isOpen = openEvent === key && !model.readOnly;
  // While a form is open, its row is not built again, so that what the user has typed is not lost.
  const signature = isOpen ? 'open' + JSON.stringify(event.fields) : JSON.stringify([label, event.verdict, why, model.readOnly]);
  return { key: 'event' + index + key, signature, build: () => {
    const isBlocked = event.verdict === 'blocked';
    const name = model.readOnly ? make('span', { class: 'code' }, label) : make('button', { type: 'button', class: 'event ' + event.verdict,
      'data-key': 'e' + event.event, 'aria-disabled': isBlocked ? 'true' : null, 'aria-expanded': fields ? String(isOpen) : null,
      onclick: () => pressEvent(node, event, key, isBlocked ? why : null) }, make('span', { class: 'code' }, label));
    return make('div', { class: 'eventrow' }, name, make('span', { class: 'verdict ' + event.verdict }, verdicts[event.verdict]),
      why ? make('span', { class: 'why' }, why) : null, isOpen ? eventForm(node, event) : null);
  } };
}

function pressEvent(node, event, key, refusal) {
  if (refusal !== null) model.message = event.event + ' cannot be sent now: ' + refusal;
  else if (event.fields.length) {
    openEvent = openEvent === key ? null : key;
    if (openEvent) requestAnimationFrame(() => requestAnimationFrame(() => {
      const input = document.querySelector('#node form input');
      if (input) input.focus();
    }));
  } else showResult(send(recipient(node, event), event.event, []), event.event);
  show();
}

const recipient = (node, event) => event.composite || (event.participants.length === 1 ? event.participants[0] : node.name);

// A form with an input for each field of an event.
function eventForm(node, event) {
  return make('form', { onsubmit: (submitted) => {
    submitted.preventDefault();
    showResult(send(recipient(node, event), event.event, [...submitted.currentTarget.querySelectorAll('input')]), event.event);
  } }, ...event.fields.map((field) => make('label', null, field.name + ' (' + field.type + ') ', make('input', { name: field.name,
    'data-type': field.type, 'data-key': 'f' + field.name, autocomplete: 'off', size: 12 }))),
  make('button', { type: 'submit', 'data-key': 'send' }, 'Send'));
}

// The JSON text is composed from strings, because JavaScript numbers would round integers above
// 2^53.
async function send(target, event, inputs) {
  const values = inputs.map((input) => JSON.stringify(input.name) + ':' + jsonOf(input.value, input.dataset.type));
  const text = inputs.length ? '{' + JSON.stringify(event) + ':{' + values.join(',') + '}}' : JSON.stringify(event);
  return ask('/api/send', '{"node":' + JSON.stringify(target) + ',"event":' + text + '}');
}

const LEAST = -(2n ** 63n);
const MOST = 2n ** 63n - 1n;

function jsonOf(text, type) {
  if (/^String\b/.test(type)) return JSON.stringify(text);
  try { JSON.parse(text); } catch { return JSON.stringify(text); }
  const integer = /^\s*-?\d+\s*$/.test(text) ? BigInt(text) : 0n;
  if (integer < LEAST || integer > MOST) {
    throw new Error('integers below ' + LEAST + ' and above ' + MOST + ' cannot be sent from this page');
  }
  return text;
}

async function showResult(promise, label) {
  try {
    const answer = await promise;
    model.message = label + ': ' + answer.outcome + (answer.reason ? ', ' + answer.reason : '') +
      (answer.state === undefined ? '' : ', ' + short(answer.state, 80));
  } catch (error) { model.message = label + ': ' + error.message; }
  show();
  fetchSelected();
}

function letterParts(node) {
  if (!model.deadLetters || !model.deadLetters.length) return [];
  const act = (deadLetter, drops) => showResult(ask('/api/dead-letter', { node: node.name, id: deadLetter.id, drops }),
    (drops ? 'drop ' : 'resend ') + deadLetter.id);
  const signature = JSON.stringify(model.deadLetters) + model.readOnly;
  return [{ key: 'dead-letters', signature, build: () => make('div', null, make('h3', { class: 'alert' }, 'Dead letters'),
    make('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Dead letters', 'data-key': 'dead-letters' },
      ...model.deadLetters.map((deadLetter) => deadLetterRow(deadLetter, act)))) }];
}

function deadLetterRow(deadLetter, act) {
  const { id, event, pipe, reason } = deadLetter;
  return make('div', { class: 'letter' }, make('b', { class: 'code' }, short(event, 60)), make('span', null, reason + ' · ' + pipe),
    ...(model.readOnly ? [] : [
      make('button', { type: 'button', 'data-key': 'r' + id, onclick: () => act(deadLetter, false) }, 'Resend'),
      make('button', { type: 'button', 'data-key': 'd' + id, onclick: () => act(deadLetter, true) }, 'Drop')]));
}

// The process

const CONTROLS = {
  start: { label: 'Start', done: 'was started' },
  stop: { label: 'Stop…', done: 'was stopped', words: 'The node ends gracefully and stays stopped until you start it. Its pipes may become full.' },
  restart: { label: 'Restart…', done: 'was restarted', words: 'The node ends gracefully and starts again in the same state, if it has a journal.' },
  kill: { label: 'Kill…', done: 'was killed', words: 'The process is killed with SIGKILL, as in a crash. The restart policy of the node applies.' },
};

async function control(name, action) {
  const { words, done } = CONTROLS[action];
  const verb = action[0].toUpperCase() + action.slice(1);
  if (words && !await isConfirmed(verb + ' ' + name + '?', words, verb + ' ' + name)) return;
  model.message = verb + ' ' + name + '…';
  show();
  try {
    await ask('/api/control', { node: name, action });
    model.message = name + ' ' + done + '.';
  } catch (error) { model.message = error.message; }
  show();
  fetchSelected();
}

// Asks before a command that interrupts a node. Escape and Cancel mean no.
function isConfirmed(question, consequence, label) {
  const dialog = byId('confirm');
  byId('question').textContent = question;
  byId('consequence').textContent = consequence;
  byId('yes').textContent = label;
  dialog.returnValue = 'no';
  dialog.showModal();
  byId('no').focus();
  return new Promise((done) => dialog.addEventListener('close', () => done(dialog.returnValue === 'yes'), { once: true }));
}
byId('yes').addEventListener('click', () => byId('confirm').close('yes'));
byId('no').addEventListener('click', () => byId('confirm').close('no'));
