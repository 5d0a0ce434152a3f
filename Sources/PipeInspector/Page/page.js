'use strict';
// The inspector's page. For security, data from the topology is only ever inserted as text nodes.

const SVG = 'http://www.w3.org/2000/svg';
const MAX_STEPS = 4000;   // The maximum number of steps in memory.
const MAX_LINES = 5000;   // The maximum number of log lines in memory.
const LARGE = 4096;       // The maximum length of a kept state or event. Only the labels of larger ones are kept.
const token = readToken();
const byId = (id) => document.getElementById(id);
// `latest` is the current topology; `topology` is the topology at the shown instant.
const model = { topology: null, latest: null, topologies: [], states: new Map(), samples: new Map(), steps: [],
  stepCount: 0, lines: [], cursor: '0', time: 0, receivedAt: 0, chosen: null, at: null, skipped: 0, readOnly: true,
  chart: null, enabled: null, deadLetters: null, whole: null, rates: new Map(), pipeRates: new Map(), health: [],
  places: new Map(), ends: new Map(), conditions: new Map(), takeovers: [], ignored: [], message: '' };

function readToken() {
  const found = /[#&]token=([0-9a-f]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem('token', found[1]);
    const rest = location.hash.replace(/([#&])token=[0-9a-f]+&?/, '$1').replace(/[#&]$/, '');
    history.replaceState(null, '', location.pathname + rest);
  }
  return sessionStorage.getItem('token') || '';
}

// Returns a part of an address such as `#node=door&event=door@5&at=1767261602000`; `null` if the
// address has no such part.
function partOfAddress(name) {
  const found = new RegExp('[#&]' + name + '=([^&]*)').exec(location.hash);
  try { return found && decodeURIComponent(found[1]); } catch { return null; }
}

// An instant as milliseconds since 1970, such as `1767261602000.125`. The number is rounded up to
// microseconds. Otherwise, the instant could be before the step from which it was taken.
const instantText = (time) => (Math.ceil(time / 1e3) / 1e3).toFixed(3).replace(/\.?0+$/, '');
const instantOf = (text) => Math.round(Number(text) * 1e3) * 1e3;

// The address names the selected node, the followed event and the shown instant, so that the user
// can share the view by its address.
function putAddress() {
  const parts = [];
  if (model.chosen) parts.push('node=' + encodeURIComponent(model.chosen));
  if (followed) parts.push('event=' + encodeURIComponent(nameOf(followed.start) + '@' + followed.start.version));
  if (model.at !== null) parts.push('at=' + instantText(model.at));
  const hash = parts.length ? '#' + parts.join('&') : '';
  if (location.hash !== hash) history.replaceState(null, '', location.pathname + hash);
}

// Usage: make('td', {class: 'number'}, 'text', child…)
function fill(element, attributes, parts) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  for (const part of parts) {
    if (part === null || part === undefined) continue;
    element.append(part instanceof Node ? part : document.createTextNode(String(part)));
  }
  return element;
}
const make = (name, attributes, ...parts) =>
  fill(document.createElement(name), attributes, parts);
const draw = (name, attributes, ...parts) =>
  fill(document.createElementNS(SVG, name), attributes, parts);

// An integer that a JavaScript number cannot represent exactly. Comparisons use the rounded number,
// but the integer is shown and sent exactly.
class ExactInteger {
  #text;
  constructor(text) { this.#text = text; }
  valueOf() { return Number(this.#text); }
  toString() { return this.#text; }
  toJSON() { return JSON.rawJSON(this.#text); }
}

// Some browsers do not pass the source text to the reviver function. These browsers show rounded
// numbers.
const parseJSON = (text) => JSON.parse(text, (_, value, context) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && context && /^-?\d+$/.test(context.source)
    ? new ExactInteger(context.source) : value);

async function ask(path, body) {
  const options = { headers: { Authorization: 'Bearer ' + token }, cache: 'no-store' };
  if (body) {
    options.method = 'POST';
    options.headers['Content-Type'] = 'application/json';
    options.body = typeof body === 'string' ? body : JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  const isJSON = (answer.headers.get('Content-Type') || '').startsWith('application/json');
  const value = isJSON ? parseJSON(await answer.text()) : { error: (await answer.text()).trim() };
  if (!answer.ok) {
    const error = new Error(value.error || 'the inspector answered with HTTP status ' + answer.status);
    error.status = answer.status;
    throw error;
  }
  return value;
}
