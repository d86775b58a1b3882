// The list of runs.

class RunsPage {
  async start() {
    const { runs, single, root, annotator, watches } = await fetchJson('/api/runs');
    if (single !== null) {
      const queued = annotator && runs[0].queue;
      window.location.replace(urlWith({ run: single }, queued ? '/queue' : '/run'));
      return;
    }
    this.runs = runs;
    this.search = make('input', { type: 'search', placeholder: 'Search runs', 'aria-label': 'Search runs' });
    this.search.value = urlParams().get('q') ?? '';
    this.search.addEventListener('input', () => go({ q: this.search.value }, { replace: true }));
    this.status = make('span', { class: 'told', role: 'status' });
    this.body = make('tbody');
    const heads = [['Select', ''], ['Run', ''], ['Pipeline', 'away'], ['Status', 'state'], ['First metric', ''], ['Rows', 'number'], ['Failed', 'number away'], ['Cost', 'number away'], ['Models', 'away'], ['Started', 'away']];
    this.compare = make('button', { type: 'button', disabled: true }, 'Compare selected');
    this.compare.addEventListener('click', () => {
      const [a, b] = this.selected();
      window.location.assign(urlWith({ a, b }, '/compare'));
    });
    const drift = watches.map(({ history, looks, drifted }) => make('p', { class: drifted ? 'notice' : 'lesser' },
      link(urlWith({ history }, '/watch'), `Watch ${visible(history)}`), `: ${drifted === null ? 'unknown' : drifted ? 'the judge has drifted' : 'no drift'}${looks === null ? '' : `, ${number(looks)} ${looks === 1 ? 'look' : 'looks'}`}`));
    showPage('Verdict', root || 'runs', ...drift,
      make('div', { class: 'tools' }, this.search, this.status, this.compare),
      make('div', { class: 'wide' }, make('table', { class: 'rows list' },
        make('thead', {}, make('tr', {}, ...heads.map(([text, kind]) => make('th', { scope: 'col', class: kind }, text)))), this.body)));
    this.body.addEventListener('change', () => { this.compare.disabled = this.selected().length !== 2; });
    this.update();
    this.follow();
  }

  selected() {
    return [...this.body.querySelectorAll('input:checked')].map((box) => box.value);
  }

  async follow() {
    while (this.runs.some((run) => run.status === 'running')) {
      await sleep(5000);
      if (this.selected().length) continue;
      this.runs = (await fetchJson('/api/runs')).runs;
      this.update();
    }
  }

  update() {
    const terms = (urlParams().get('q') ?? '').toLowerCase().split(/\s+/).filter(Boolean);
    const matches = this.runs.filter((run) => {
      const text = [run.run, run.name, run.status, run.dataset, ...Object.keys(run.models)].join('\n').toLowerCase();
      return terms.every((term) => text.includes(term));
    });
    this.status.textContent = this.runs.length ? `${number(matches.length)} of ${number(this.runs.length)}` : 'No runs yet';
    this.body.replaceChildren(...matches.map((run) => make('tr', {},
      make('td', {}, make('input', { type: 'checkbox', value: run.run, 'aria-label': `Select ${visible(run.run)}` })),
      make('td', {}, link(urlWith({ run: run.run }, '/run'), said(run.run))),
      make('td', { class: 'away' }, said(run.name)),
      make('td', {}, make('span', { class: `mark ${run.status === 'finished' ? 'none' : 'wrong'}` }, said(run.status))),
      make('td', {}, run.headline ? make('span', {}, said(run.headline.metric), ' ', formatMetric(run.headline)) : '–'),
      make('td', { class: 'number' }, number(run.rows)),
      make('td', { class: 'number away' }, number(run.failed)),
      make('td', { class: 'number away' }, money(run.cost_usd)),
      make('td', { class: 'away' }, said(Object.keys(run.models).join(', ') || '–')),
      make('td', { class: 'away' }, said(formatTime(run.started))))));
  }
}
