'use strict';
// The page of the inspector. Whatever comes from the topology becomes text nodes, and nothing else.

const SVG = 'http://www.w3.org/2000/svg';
const KEPT = 4000;         // Steps that the page remembers.
const KEPT_LINES = 5000;   // Lines of logs that it remembers.
const LARGE = 4096;        // Longer states and events of steps are told by their names.
const token = takeToken();
const byId = (id) => document.getElementById(id);
// `latest` is the topology as it is, `topology` as it was at the instant that is shown.
const model = { topology: null, latest: null, topologies: [], states: new Map(), samples: new Map(), steps: [],
  stepCount: 0, lines: [], cursor: '0', time: 0, heardAt: 0, chosen: null, at: null, skipped: 0, readOnly: true,
  machine: null, enabled: null, letters: null, whole: null, rates: new Map(), places: new Map(), ends: new Map(),
  message: '' };

function takeToken() {
  const found = /[#&]token=([0-9a-f]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem('token', found[1]);
    history.replaceState(null, '', location.pathname);
  }
  return sessionStorage.getItem('token') || '';
}

// Elements: make('td', {class: 'number'}, 'text', child…)
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

// An integer that a number of JavaScript's would round: it counts as that number, and is shown and written as it came.
class ExactInteger {
  #text;
  constructor(text) { this.#text = text; }
  valueOf() { return Number(this.#text); }
  toString() { return this.#text; }
  toJSON() { return JSON.rawJSON(this.#text); }
}

// Browsers that do not give a reviver the source of a number show it rounded.
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
    const problem = new Error(value.error || 'the inspector answered with HTTP status ' + answer.status);
    problem.status = answer.status;
    throw problem;
  }
  return value;
}

// Words

function short(value, length) {
  const text = stateText(value);
  return text.length > length ? text.slice(0, length - 1) + '…' : text;
}

// open · closing(persons: 3) · {"a":1}
function stateText(value) {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '–';
  if (typeof value !== 'object') return JSON.stringify(value);
  if (!worded.has(value)) worded.set(value, wording(value));
  return worded.get(value);
}
// States are worded once, and shown often.
const worded = new WeakMap();

function wording(value) {
  if (!Array.isArray(value)) {
    const names = Object.keys(value);
    if (names.length === 1 && value[names[0]] && typeof value[names[0]] === 'object' &&
      !(value[names[0]] instanceof ExactInteger)) {
      const inner = value[names[0]];
      const parts = Object.keys(inner).map((name) =>
        (/^_\d+$/.test(name) ? '' : name + ': ') + JSON.stringify(inner[name]));
      return parts.length ? names[0] + '(' + parts.join(', ') + ')' : names[0];
    }
  }
  return JSON.stringify(value);
}

function caseName(value) {
  if (typeof value === 'string') return value;
  if (value && typeof value === 'object') {
    const names = Object.keys(value);
    if (names.length === 1) return names[0];
  }
  return null;
}

const amount = (bytes) => bytes.toLocaleString('en') + ' bytes';
// A number of so many nanoseconds is not exact.
const clock = (time) => new Date(Math.round(time / 1e6)).toLocaleTimeString([], { hour12: false }) + '.' +
  String(Math.round(time / 1e6) % 1000).padStart(3, '0');
