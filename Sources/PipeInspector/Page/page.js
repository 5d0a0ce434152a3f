'use strict';
// The inspector's page. For security, all data from the topology becomes text nodes only.

const SVG = 'http://www.w3.org/2000/svg';
const MAX_STEPS = 4000;   // The maximum number of steps in memory.
const MAX_LINES = 5000;   // The maximum number of log lines in memory.
const LARGE = 4096;       // States and events of steps longer than this are shown by their labels.
const token = readToken();
const byId = (id) => document.getElementById(id);
// `latest` is the current topology, `topology` the topology at the shown instant.
const model = { topology: null, latest: null, topologies: [], states: new Map(), samples: new Map(), steps: [],
  stepCount: 0, lines: [], cursor: '0', time: 0, receivedAt: 0, chosen: null, at: null, skipped: 0, readOnly: true,
  machine: null, enabled: null, deadLetters: null, whole: null, rates: new Map(), places: new Map(), ends: new Map(),
  message: '' };

function readToken() {
  const found = /[#&]token=([0-9a-f]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem('token', found[1]);
    history.replaceState(null, '', location.pathname);
  }
  return sessionStorage.getItem('token') || '';
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

// An integer that a JavaScript number would round. It counts as the rounded number, but is shown and sent exactly.
class ExactInteger {
  #text;
  constructor(text) { this.#text = text; }
  valueOf() { return Number(this.#text); }
  toString() { return this.#text; }
  toJSON() { return JSON.rawJSON(this.#text); }
}

// Browsers that do not pass the source text to a reviver show rounded numbers.
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

// Texts

function short(value, length) {
  const text = stateText(value);
  return text.length > length ? text.slice(0, length - 1) + '…' : text;
}

// Examples: open, closing(persons: 3), {"a":1}
function stateText(value) {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '–';
  if (typeof value !== 'object') return JSON.stringify(value);
  if (!stateTexts.has(value)) stateTexts.set(value, describeState(value));
  return stateTexts.get(value);
}
// Caches the texts, since states are shown often.
const stateTexts = new WeakMap();

function describeState(value) {
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
// Nanoseconds since 1970 exceed 2^53 and are rounded, so this rounds to milliseconds.
const clock = (time) => new Date(Math.round(time / 1e6)).toLocaleTimeString([], { hour12: false }) + '.' +
  String(Math.round(time / 1e6) % 1000).padStart(3, '0');
