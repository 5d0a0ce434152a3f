'use strict';
// Texts of states, events and times. States are never shown as JSON.

function short(value, length) {
  const text = stateText(value);
  return text.length > length ? text.slice(0, length - 1) + '…' : text;
}

// Examples: open, closing(persons: 3), a: 1, b: [2, 3]
function stateText(value) {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '–';
  if (typeof value !== 'object') return String(value);
  if (!stateTexts.has(value)) stateTexts.set(value, valueText(value, true));
  return stateTexts.get(value);
}
// A cache of texts, because the same states are shown often.
const stateTexts = new WeakMap();

const isObject = (value) => value !== null && typeof value === 'object' && !(value instanceof ExactInteger);

function valueText(value, isOutermost) {
  if (typeof value === 'string') return isOutermost || /^[A-Za-z_]\w*$/.test(value) ? value : JSON.stringify(value);
  if (value === null || value === undefined) return 'none';
  if (!isObject(value)) return String(value);
  if (Array.isArray(value)) return '[' + value.map((one) => valueText(one)).join(', ') + ']';
  const names = Object.keys(value);
  if (names.length === 1 && isObject(value[names[0]]) && !Array.isArray(value[names[0]])) {
    const fields = fieldsText(value[names[0]]);
    return fields ? names[0] + '(' + fields + ')' : names[0];
  }
  return isOutermost ? fieldsText(value) || 'no values' : '(' + fieldsText(value) + ')';
}

// Values without a name have the names _0, _1, … in JSON.
const fieldsText = (value) => Object.entries(value).map(([name, one]) =>
  (/^_\d+$/.test(name) ? '' : name + ': ') + valueText(one)).join(', ');

function caseName(value) {
  if (typeof value === 'string') return value;
  if (isObject(value)) {
    const names = Object.keys(value);
    if (names.length === 1) return names[0];
  }
  return null;
}

const amount = (bytes) => bytes.toLocaleString('en') + ' bytes';
const counted = (count, one) => count.toLocaleString('en') + ' ' + one + (count === 1 ? '' : 's');
// Nanoseconds since 1970 exceed 2^53, so they are inexact. The clock shows milliseconds.
function clock(time) {
  const milliseconds = Math.round(time / 1e6);
  const date = new Date(milliseconds);
  // The browser's functions for local time formats take longer than everything else in a row of the
  // sequence chart.
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':') + '.' +
    String(milliseconds % 1000).padStart(3, '0');
}

// Example: 2026-11-28 17:40:49.
function dateText(time) {
  const date = new Date(Math.round(time / 1e6));
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, '0')).join('-') + ' ' +
    clock(time).slice(0, 8);
}

// Examples: 340 ms, 2.5 s, 3 min, 2 h. `span` is in nanoseconds.
function spanText(span) {
  const seconds = span / 1e9;
  if (seconds < 1) return Math.round(seconds * 1000) + ' ms';
  if (seconds < 60) return Number(seconds.toFixed(seconds < 10 ? 1 : 0)) + ' s';
  if (seconds < 7200) return Math.round(seconds / 60) + ' min';
  return Math.round(seconds / 3600) + ' h';
}

// A value as a tree that the user can fold.
const MAX_BRANCHES = 200;   // The maximum number of values of one branch.
const INLINE = 60;          // The maximum length of a branch in one line.
const opened = new Map();   // For each path of a branch: whether the user has opened it.

function tree(value, path, name) {
  const label = name === undefined ? null : make('span', { class: 'field' }, name + ': ');
  if (!isObject(value)) return make('span', { class: 'value' }, label, valueText(value, name === undefined));
  const text = valueText(value, true);
  if (text.length <= INLINE) return make('span', { class: 'value' }, label, text);
  const names = Object.keys(value);
  const only = !Array.isArray(value) && names.length === 1 && isObject(value[names[0]]) ? names[0] : null;
  const inner = only === null ? value : value[only];
  const entries = Object.entries(inner);
  const title = only || (Array.isArray(inner) ? counted(entries.length, 'element') : counted(entries.length, 'value'));
  const branch = make('details', { open: opened.has(path) ? opened.get(path) : entries.length <= 12,
    ontoggle: (event) => opened.set(path, event.currentTarget.open) }, make('summary', { 'data-key': 't' + path }, label, title));
  branch.append(make('ul', { class: 'tree' }, ...entries.slice(0, MAX_BRANCHES).map(([key, one]) =>
    make('li', null, tree(one, path + '.' + key, /^_\d+$/.test(key) ? '' + Number(key.slice(1)) : key))),
  entries.length > MAX_BRANCHES ? make('li', null, counted(entries.length - MAX_BRANCHES, 'more value')) : null));
  return branch;
}
