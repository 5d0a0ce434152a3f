'use strict';
// Controls

byId('search').addEventListener('input', show);
byId('near').addEventListener('change', show);
byId('only').addEventListener('change', show);
byId('grep').addEventListener('input', toNewest);
byId('mine').addEventListener('change', toNewest);
byId('newest').addEventListener('click', () => { toNewest(); byId('logbox').focus(); });
byId('freeze').addEventListener('click', () => lookAt(model.at === null && model.latest ? now() : null));
byId('slider').addEventListener('input', (event) => {
  const place = Number(event.target.value);
  // One step after the other: each has a place of its own, however much time is between them.
  lookAt(place < Number(event.target.max) && model.steps[place] ? model.steps[place].time : null);
});
byId('live').addEventListener('click', () => {
  byId('slider').focus();
  lookAt(null);
});

function lookAt(time) {
  model.at = time;
  show();
}

// What is looked for, and at, outlasts a reload.
const KEPT_TEXTS = ['search', 'grep'];
const KEPT_BOXES = ['near', 'only', 'mine'];
addEventListener('pagehide', () => {
  const view = { chosen: model.chosen };
  for (const name of KEPT_TEXTS) view[name] = byId(name).value;
  for (const name of KEPT_BOXES) view[name] = byId(name).checked;
  sessionStorage.setItem('view', JSON.stringify(view));
});
const view = JSON.parse(sessionStorage.getItem('view') || '{}');
for (const name of KEPT_TEXTS) byId(name).value = view[name] || '';
for (const name of KEPT_BOXES) byId(name).checked = Boolean(view[name]);
model.chosen = view.chosen || null;

// The talk with the inspector

async function follow() {
  let pause = 500;
  for (;;) {
    try {
      if (document.hidden) await new Promise((done) =>
        document.addEventListener('visibilitychange', done, { once: true }));
      take(await ask('/api/changes?after=' + model.cursor));
      byId('link').textContent = '';
      pause = 500;
    } catch (problem) {
      byId('link').textContent = problem.status ? problem.message : 'The inspector does not answer; trying again.';
      byId('link').className = 'down';
      if (problem.status === 401) return;
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 8000);
    }
  }
}

ask('/api/about').then((about) => { model.readOnly = about.readOnly; show(); }).catch(() => {});
follow();
