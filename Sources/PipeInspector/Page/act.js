'use strict';
// Commands to a node: a form sends events, and buttons resend or drop dead letters.

// The form keeps its inputs until the events change.
function formPart(node) {
  const key = node.name + JSON.stringify(model.enabled.events.map((event) =>
    [event.event, event.composite, event.participants, event.fields]));
  if (!model.form || model.form.key !== key) model.form = { key, element: sendForm(node, model.enabled.events) };
  return { key: 'form', signature: key, build: () => model.form.element };
}

// Builds a form with an input for each field of the selected event.
function sendForm(node, events) {
  const fields = make('span');
  const choice = make('select', { 'data-key': 'choice', onchange: () => putFields() },
    ...events.map((event, index) => make('option', { value: index }, event.event)));
  function putFields() {
    fields.replaceChildren(...events[choice.value].fields.map((field) =>
      make('label', null, field.name + ' (' + field.type + ') ', make('input', { name: field.name,
        'data-type': field.type, autocomplete: 'off', size: 12 }))));
  }
  const chosen = model.choice && events.findIndex((event) => event.event === model.choice);
  if (chosen > 0) choice.value = chosen;
  putFields();
  return make('form', { onsubmit: (submitted) => {
    submitted.preventDefault();
    const event = events[choice.value];
    model.choice = event.event;
    const target = event.composite || (event.participants.length === 1 ? event.participants[0] : node.name);
    showResult(send(target, event.event, [...fields.querySelectorAll('input')]), event.event);
  } }, make('label', null, 'Send ', choice), fields,
  make('button', { type: 'submit', 'data-key': 'send' }, 'Send'));
}

// The request is composed as text, because JavaScript numbers would round integers above 2^53.
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
  const act = (deadLetter, drops) => showResult(ask('/api/dead-deadLetter', { node: node.name, id: deadLetter.id, drops }),
    (drops ? 'drop ' : 'resend ') + deadLetter.id);
  const rows = model.deadLetters.map((deadLetter) => [deadLetter.id, short(deadLetter.event, 60), deadLetter.pipe, deadLetter.reason]);
  return [{ key: 'dead-letters', signature: JSON.stringify(rows) + model.readOnly, build: () =>
    make('div', null, make('h3', { class: 'alert' }, 'Dead letters'), make('div', { class: 'scroll', tabindex: 0, role: 'group',
      'aria-label': 'Dead letters', 'data-key': 'dead-letters' }, make('table', null, make('tbody', null,
      ...model.deadLetters.map((deadLetter, index) => deadLetterRow(deadLetter, rows[index], act)))))) }];
}

function deadLetterRow(deadLetter, [number, event, pipe, reason], act) {
  return make('tr', null, make('td', { class: 'number' }, number), make('td', { class: 'code' }, event),
    make('td', { class: 'code' }, pipe), make('td', null, reason), model.readOnly ? null : make('td', null,
      make('button', { type: 'button', 'data-key': 'r' + number, onclick: () => act(deadLetter, false) }, 'Resend'), ' ',
      make('button', { type: 'button', 'data-key': 'd' + number, onclick: () => act(deadLetter, true) }, 'Drop')));
}
