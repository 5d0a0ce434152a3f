'use strict';
// Controls

byId('search').addEventListener('input', show);
byId('near').addEventListener('change', show);
byId('only').addEventListener('change', show);
byId('grep').addEventListener('input', toNewest);
byId('mine').addEventListener('change', toNewest);
byId('newest').addEventListener('click', () => { toNewest(); byId('logbox').focus(); });
byId('freeze').addEventListener('click', () => showInstant(model.at === null && model.latest ? now() : null));
byId('slider').addEventListener('input', (event) => {
  const place = Number(event.target.value);
  // Each step has its own position, however much time is between the steps.
  showInstant(place < Number(event.target.max) && model.steps[place] ? model.steps[place].time : null);
});
byId('live').addEventListener('click', () => {
  byId('slider').focus();
  showInstant(null);
});

function showInstant(time) {
  model.at = time;
  show();
}

// The filters and the selection survive a reload.
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
model.chosen = view.chosen || null;

// The connection to the inspector

async function follow() {
  let pause = 500;
  for (;;) {
    try {
      if (document.hidden) await new Promise((done) =>
        document.addEventListener('visibilitychange', done, { once: true }));
      applyDelta(await ask('/api/changes?after=' + model.cursor));
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
follow();
