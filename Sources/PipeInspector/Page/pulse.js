'use strict';
// Pulses: a dot moves along a wire for each event, as long as the pipe carries few events. For a
// busy pipe, only the width of the wire shows the rate.

const DOT_TIME = 800;    // The time that a dot takes. Unit: milliseconds.
const RECENT = 3000;     // The time after which an event gets no dot. Unit: milliseconds.
const FEW_EVENTS = 5;    // The maximum number of dots on a pipe in a second.
const MOST_DOTS = 30;    // The maximum number of dots on the page.

const lastEvents = new Map();   // The name of the last event of each pipe.
const pulseTimes = new Map();   // The times of the latest events of each pipe.
let pulses = [];                // The events that have no dot yet: [{ pipe, name, time, notedAt }].

const still = matchMedia('(prefers-reduced-motion: reduce)');

function forgetPulses() {
  lastEvents.clear();
  pulseTimes.clear();
  pulses = [];
}

// Notes the events that a step has sent. Also notes the event that the step has processed, if the
// sender's step is unknown.
function notePulses(step) {
  for (const event of step.sent || []) notePulse(event.pipe, event.name, step.time);
  if (!step.source) return;
  if (step.event !== undefined) lastEvents.set(step.source.pipe, caseName(step.event) || 'event');
  if (!step.origin) notePulse(step.source.pipe, caseName(step.event), step.time);
}

function notePulse(pipe, name, time) {
  if (name) lastEvents.set(pipe, name);
  const [now, times] = [performance.now(), pulseTimes.get(pipe) || []];
  times.push(now);
  while (times[0] < now - 1000) times.shift();
  if (times.length > FEW_EVENTS + 1) times.splice(0, times.length - FEW_EVENTS - 1);
  pulseTimes.set(pipe, times);
  pulses.push({ pipe, name: name || lastEvents.get(pipe) || 'event', time, notedAt: now });
  if (pulses.length > 10 * MOST_DOTS) pulses.splice(0, pulses.length - MOST_DOTS);
}

const isQuiet = (pipe) => (pulseTimes.get(pipe) || []).length <= FEW_EVENTS;

// Draws the dots of new events. `looks` are the wires with their pipes, in the order of the lines of the layout.
function drawPulses(lines, looks) {
  // Events that have passed while the graph was out of sight have no dots.
  const found = pulses.filter((one) => isQuiet(one.pipe) && performance.now() - one.notedAt < RECENT).slice(-MOST_DOTS);
  pulses = [];
  if (still.matches || !found.length) return;
  const lineOf = new Map();
  looks.forEach((look, index) => { for (const pipe of look.pipes) lineOf.set(pipe, lines[index]); });
  const first = Math.min(...found.map((one) => one.time));
  for (const { pipe, name, time } of found) {
    const line = lineOf.get(pipe);
    if (!line || !line.points.length || picture.pulses.childElementCount >= MOST_DOTS) continue;
    const dot = draw('circle', { class: 'pulse', r: 5 }, draw('title', null, name + ' in ' + pipe));
    dot.style.offsetPath = 'path("' + roundedPath(wirePoints(line)) + '")';
    picture.pulses.append(dot);
    // The dots of events from one update start one after another, as the events did.
    const move = dot.animate([{ offsetDistance: '0%', opacity: 1 }, { offsetDistance: '100%', opacity: 1 }],
      { duration: DOT_TIME, delay: Math.min(400, (time - first) / 1e6), easing: 'ease-in-out' });
    move.onfinish = move.oncancel = () => dot.remove();
  }
}

// Returns the last event of each pipe of a wire, for the wire's description.
function lastEventWords(pipes) {
  return pipes.filter((pipe) => lastEvents.has(pipe)).map((pipe) => '\nlast event' + (pipes.length > 1 ? ' of ' + pipe : '') + ': ' +
    lastEvents.get(pipe)).join('');
}
