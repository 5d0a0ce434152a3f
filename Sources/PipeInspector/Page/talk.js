'use strict';
// Controls

byId('search').addEventListener('input', show);
byId('near').addEventListener('change', show);
byId('only').addEventListener('change', show);
byId('freeze').addEventListener('click', (event) => {
  model.frozen = !model.frozen;
  event.target.setAttribute('aria-pressed', model.frozen);
  show();
});
byId('slider').addEventListener('input', (event) => {
  const steps = model.steps.filter((step) => step.time);
  const part = Number(event.target.value) / 1000;
  if (part >= 1 || !steps.length) model.at = null;
  else {
    const [first, last] = [steps[0].time, Date.now() * 1e6];
    model.at = first + (last - first) * part;
  }
  show();
});
byId('live').addEventListener('click', () => {
  model.at = null;
  byId('slider').value = 1000;
  byId('slider').focus();
  show();
});

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
