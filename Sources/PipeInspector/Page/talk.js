'use strict';
// Controls

byId('search').addEventListener('input', show);
byId('smaller').addEventListener('click', () => picture && setZoom(picture.zoom / 1.25));
byId('larger').addEventListener('click', () => picture && setZoom(picture.zoom * 1.25));
byId('fit').addEventListener('click', () => setZoom(null));
addEventListener('resize', show);
byId('near').addEventListener('change', show);
byId('only').addEventListener('change', show);
byId('grep').addEventListener('input', toNewest);
byId('mine').addEventListener('change', toNewest);
byId('newest').addEventListener('click', () => { toNewest(); byId('logbox').focus(); });
byId('freeze').addEventListener('click', () => showInstant(model.at === null && model.latest ? now() : null));
// Moves the graph with the mouse, and zooms with the wheel while Ctrl is pressed.
let grip = null;
byId('graph').addEventListener('pointerdown', (event) => {
  const panel = byId('graph');
  if (event.button !== 0 || event.pointerType === 'touch' || event.target.closest('[role=button], .pipe')) return;
  grip = { x: event.clientX + panel.scrollLeft, y: event.clientY + panel.scrollTop };
  panel.setPointerCapture(event.pointerId);
});
byId('graph').addEventListener('pointermove', (event) => {
  if (grip) byId('graph').scrollTo(grip.x - event.clientX, grip.y - event.clientY);
});
for (const name of ['pointerup', 'pointercancel']) byId('graph').addEventListener(name, () => { grip = null; });
byId('graph').addEventListener('wheel', (event) => {
  if (!event.ctrlKey || !picture) return;
  event.preventDefault();
  setZoom(picture.zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
}, { passive: false });

// The filters and the selection survive when the page is reloaded.
const SAVED_INPUTS = ['search', 'grep'];
const SAVED_CHECKBOXES = ['near', 'only', 'mine'];
addEventListener('pagehide', () => {
  const view = { chosen: model.chosen };
  for (const name of SAVED_INPUTS) view[name] = byId(name).value;
  for (const name of SAVED_CHECKBOXES) view[name] = byId(name).checked;
  sessionStorage.setItem('view', JSON.stringify(view));
});
const view = JSON.parse(sessionStorage.getItem('view') || '{}');
for (const name of SAVED_INPUTS) byId(name).value = view[name] || '';
for (const name of SAVED_CHECKBOXES) byId(name).checked = Boolean(view[name]);
model.chosen = partOfAddress('node') || view.chosen || null;
// The event and the instant in the address are known once their steps have arrived.
let wanted = { event: partOfAddress('event'), at: partOfAddress('at') };
function openAddress() {
  const { event, at } = wanted;
  wanted = { event: null, at: null };
  const found = /^(.*)@([^@]*)$/.exec(event || '');
  const step = found && model.steps.find((one) => isStep(one) && nameOf(one) === found[1] && String(one.version) === found[2]);
  if (step) follow(step);
  else if (event) say('answer', 'The event ' + event + ' is not in memory.');
  if (at && Number(at)) showInstant(instantOf(at));
}
addEventListener('hashchange', () => {
  const name = partOfAddress('node');
  if (name && name !== model.chosen) choose(name);
  wanted = { event: partOfAddress('event'), at: partOfAddress('at') };
  if (!wanted.event) leaveEvent();
  if (!wanted.at && model.at !== null) showInstant(null);
  openAddress();
});

// The connection to the inspector

async function poll() {
  let pause = 500;
  for (;;) {
    try {
      if (document.hidden) await new Promise((done) =>
        document.addEventListener('visibilitychange', done, { once: true }));
      applyDelta(await ask('/api/changes?after=' + model.cursor));
      if (wanted.event || wanted.at) openAddress();
      byId('link').textContent = '';
      pause = 500;
    } catch (error) {
      byId('link').textContent = error.status ? error.message : 'The inspector does not answer; trying again.';
      byId('link').className = 'down';
      if (error.status === 401) return;
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 8000);
    }
  }
}

ask('/api/about').then((about) => { model.readOnly = about.readOnly; show(); }).catch(() => {});
poll();
