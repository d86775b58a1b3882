// The list of runs and studies.

const FIRST_RUNS = 50;
const MOST_COMPARED = 12;
const RUN_STATES = [['', 'All states'], ['failed', 'Gates failed'], ['passed', 'Gates passed'], ['none', 'Without gates'], ['rows', 'With failed rows'], ['unfinished', 'Not finished']];
const STUDY_NAMES = { sweep: 'Sweep', audit: 'Audit', align: 'Alignment', paper: 'Paper', comparison: 'Comparison' };

/** How a run ended: `failed`, `unsure` or `passed` by its gates, `none` without gates, else `unfinished`. */
function runState(run) {
  if (run.status !== 'finished') return 'unfinished';
  if (run.rows && run.failed >= run.rows) return 'lost';
  if (!run.gates.length) return 'none';
  if (run.gates.some(([, verdict, passed]) => !passed && verdict === 'failed')) return 'failed';
  return run.gates.every(([, , passed]) => passed) ? 'passed' : 'unsure';
}

/** The state as a mark: a run whose gate failed is never plain "finished". */
function stateMark(run) {
  const state = runState(run);
  const text = { lost: '! all rows failed', failed: '✗ gates failed', unsure: '? gates inconclusive', passed: '✓ gates passed' }[state] ?? run.status;
  return make('span', { class: `mark ${{ lost: 'wrong', failed: 'wrong', unsure: 'wrong', passed: 'right', unfinished: 'wrong' }[state] ?? 'none'}` }, said(text));
}

/** Date and time without seconds, in UTC. */
const shortTime = (text) => (text ? text.slice(0, 16).replace('T', ' ') : '–');

const LIST_COLUMNS = [
  { key: 'run', title: 'Run', value: (run) => run.run },
  { key: 'pipeline', title: 'Pipeline', kind: 'away', value: (run) => `${run.name}\n${run.dataset}` },
  { key: 'state', title: 'Status', value: (run) => ['lost', 'failed', 'unsure', 'unfinished', 'none', 'passed'].indexOf(runState(run)) },
  { key: 'gates', title: 'Gates', kind: 'away', value: (run) => (run.gates.length ? run.gates.filter(([, , passed]) => passed).length / run.gates.length : null) },
  { key: 'metric', title: 'Main metric', value: (run) => run.main?.value ?? null },
  { key: 'rows', title: 'Rows', kind: 'number away', value: (run) => run.rows },
  { key: 'failed', title: 'Failed', kind: 'number away', value: (run) => run.failed },
  { key: 'cost', title: 'Cost', kind: 'number away', value: (run) => run.cost_usd },
  { key: 'model', title: 'Model', kind: 'away', value: (run) => Object.keys(run.models).join(', ') },
  { key: 'started', title: 'Started (UTC)', kind: 'away started', value: (run) => run.started },
];

/** What a folder without runs says: how to make one. */
function emptyFolder(root) {
  const command = (text) => make('pre', {}, make('code', {}, text));
  return [make('p', { class: 'notice' }, 'There is no run in ', make('code', {}, said(root || 'this folder')), ' yet.'),
    make('p', {}, 'Judge your data, then load this page again:'), command(`verdict run judge.yaml data.jsonl --out ${visible(root || 'runs')}/first`),
    make('p', {}, 'Or look at an example, without a key or a network:'), command(`verdict demo --out ${visible(root || 'runs')}/demo`),
    make('p', {}, 'If your runs are elsewhere, start the viewer with their folder: ', make('code', {}, 'verdict view FOLDER'), '.')];
}

class RunsPage {
  async start() {
    const list = await fetchJson('/api/runs');
    const { runs, single, root, annotator } = list;
    if (single !== null) {
      const queued = annotator && runs[0].queue;
      window.location.replace(urlWith({ run: single }, queued ? '/queue' : '/run'));
      return;
    }
    this.list = list;
    if (!runs.length && !list.studies.length) {
      showPage('Verdict', root || 'runs', ...emptyFolder(root));
      return;
    }
    this.search = make('input', { type: 'search', placeholder: 'Search runs', 'aria-label': 'Search runs' });
    this.search.value = urlParams().get('q') ?? '';
    this.search.addEventListener('input', () => go({ q: this.search.value }, { replace: true }));
    this.state = makeSelect('State', RUN_STATES, '');
    this.pipeline = makeSelect('Pipeline', [['', 'All pipelines'], ...[...new Set(runs.map((run) => run.name))].sort().map((name) => [name, name])], '');
    this.of = makeSelect('Which runs', [['', 'Own runs'], ['all', 'Also runs of studies']], '');
    this.of.hidden = runs.every((run) => run.study === null);
    for (const [name, select] of [['state', this.state], ['pipeline', this.pipeline], ['of', this.of]]) {
      select.addEventListener('change', () => go({ [name]: select.value }));
    }
    this.status = make('span', { class: 'told', role: 'status' });
    this.head = make('tr');
    this.body = make('tbody');
    this.more = make('button', { type: 'button' });
    this.more.addEventListener('click', () => { this.everything = true; this.update(); });
    this.compare = make('button', { type: 'button', class: 'far', disabled: true }, 'Compare selected');
    this.compare.addEventListener('click', () => {
      const names = this.selected();
      window.location.assign(urlWith(names.length === 2 ? { a: names[0], b: names[1] } : { run: names }, '/compare'));
    });
    this.conclusion = make('p', { class: 'conclusion' });
    this.trends = make('section', { id: 'trends' });
    this.studies = make('section', { id: 'studies' });
    showPage('Verdict', root || 'runs', this.conclusion,
      make('section', { id: 'runs' },
        make('div', { class: 'tools' }, this.search, this.state, this.pipeline, this.of, this.status, this.compare),
        make('div', { class: 'wide' }, make('table', { class: 'rows list' }, make('thead', {}, this.head), this.body)), this.more),
      this.trends, this.studies);
    this.body.addEventListener('change', () => { const { length } = this.selected(); this.compare.disabled = length < 2 || length > MOST_COMPARED; });
    this.update();
    this.follow();
  }

  /** The selected runs, the oldest first: it is the reference. */
  selected() {
    const names = [...this.body.querySelectorAll('input:checked')].map((box) => box.value);
    const started = new Map(this.list.runs.map((run) => [run.run, run.started]));
    return names.sort((a, b) => (started.get(a) < started.get(b) ? -1 : 1));
  }

  async follow() {
    while (this.list.runs.some((run) => run.status === 'running')) {
      await sleep(5000);
      if (this.selected().length) continue;
      this.list = await fetchJson('/api/runs');
      this.update();
    }
  }

  /** The runs that the address asks for, in its order. */
  matches() {
    const params = urlParams();
    const terms = (params.get('q') ?? '').toLowerCase().split(/\s+/).filter(Boolean);
    const [state, pipeline] = [params.get('state') ?? '', params.get('pipeline') ?? ''];
    const found = this.list.runs.filter((run) => {
      const text = [run.run, run.name, run.status, run.dataset, ...Object.keys(run.models)].join('\n').toLowerCase();
      return (run.study === null || params.get('of') === 'all') && terms.every((term) => text.includes(term))
        && (!pipeline || run.name === pipeline)
        && (!state || (state === 'rows' ? run.failed > 0 : state === runState(run) || (state === 'failed' && runState(run) === 'unsure')));
    });
    const column = LIST_COLUMNS.find(({ key }) => key === params.get('sort'));
    if (!column) return found;
    const sign = params.get('down') === '1' ? -1 : 1;
    return found.sort((one, other) => {
      const [a, b] = [column.value(one), column.value(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true }));
    });
  }

  update() {
    const params = urlParams();
    const matches = this.matches();
    const runs = this.list.runs.filter((run) => run.study === null || params.get('of') === 'all');
    for (const [name, select] of [['state', this.state], ['pipeline', this.pipeline], ['of', this.of]]) select.value = params.get(name) ?? '';
    this.status.textContent = runs.length ? `${number(matches.length)} of ${number(runs.length)}` : 'No runs yet';
    this.conclusion.replaceChildren(...this.concluded());
    this.head.replaceChildren(make('th', { scope: 'col' }, make('span', { class: 'unseen' }, 'Select')), ...LIST_COLUMNS.map((column) => sortedHead(column, params)));
    const shownRuns = this.everything ? matches : matches.slice(0, FIRST_RUNS);
    this.body.replaceChildren(...shownRuns.map((run) => this.line(run)));
    this.more.hidden = shownRuns.length === matches.length;
    this.more.textContent = `Show all ${number(matches.length)} runs`;
    this.trends.replaceChildren(...trendCharts(matches));
    this.studies.replaceChildren(...this.studyTable());
  }

  /** What the list says, as one line. */
  concluded() {
    const { runs, studies } = this.list;
    const own = runs.filter((run) => run.study === null);
    if (!own.length && !studies.length) return [];
    const failed = own.filter((run) => ['failed', 'unsure'].includes(runState(run))).length;
    const parts = [[count(own.length, 'run')]];
    if (failed) parts.push([link(urlWith({ state: 'failed' }, '/'), `${number(failed)} with failed gates`)]);
    else if (own.some((run) => run.gates.length)) parts.push(['no failed gates']);
    if (studies.length) parts.push([link('#studies', count(studies.length, 'study', 'studies'))]);
    const latest = own.reduce((newest, run) => (newest === null || run.started > newest.started ? run : newest), null);
    if (latest) parts.push(['latest: ', link(urlWith({ run: latest.run }, '/run'), said(latest.run)), ...(latest.conclusion ? [', ', said(lowered(latest.conclusion))] : [])]);
    return parts.flatMap((part, index) => (index ? ['; ', ...part] : part));
  }

  line(run) {
    const own = run.gates.filter(([, , , isImplied]) => !isImplied);
    const passed = own.filter(([, , each]) => each).length;
    const missed = run.gates.filter(([, , each]) => !each).map(([metric]) => metric);
    const metric = (each) => [said(each.metric.replaceAll('_', ' ')), ' ', make('b', {}, decimal(each.value)), ' ', formatInterval(each)];
    return make('tr', {},
      make('td', {}, make('input', { type: 'checkbox', value: run.run, 'aria-label': `Select ${visible(run.run)}` })),
      make('td', { class: 'name' }, link(urlWith({ run: run.run }, '/run'), breakable(run.run))),
      make('td', { class: 'away name' }, breakable(run.name), make('span', { class: 'sub' }, breakable(run.dataset))),
      make('td', {}, stateMark(run)),
      make('td', { class: 'away gates' }, own.length ? `${passed} of ${own.length} passed` : '–', ...missed.map((metric) => make('span', { class: 'sub' }, said(metric)))),
      make('td', { class: 'metric' }, ...(run.main ? metric(run.main) : ['–']), ...(run.second ? [make('span', { class: 'sub' }, ...metric(run.second))] : [])),
      make('td', { class: 'number away' }, number(run.rows)),
      make('td', { class: `number away${run.failed ? ' mark failed' : ''}` }, number(run.failed)),
      make('td', { class: 'number away' }, money(run.cost_usd)),
      make('td', { class: 'away name' }, breakable(Object.keys(run.models).join(', ') || '–')),
      make('td', { class: 'away started' }, said(shortTime(run.started))));
  }

  studyTable() {
    const { studies } = this.list;
    if (!studies.length) return [];
    const heads = [['Study', ''], ['Conclusion', ''], ['Pipeline', 'away'], ['Dataset', 'away'], ['Written (UTC)', 'away started']];
    const lines = studies.map((study) => make('tr', {},
      make('td', { class: 'name' }, link(urlWith({ kind: study.kind, folder: study.folder }, '/study'), STUDY_NAMES[study.kind] ?? study.kind, ' ', said(study.folder))),
      make('td', { class: 'text' }, said(study.conclusion || '–')),
      make('td', { class: 'away name' }, said(study.pipeline || '–')),
      make('td', { class: 'away name' }, said(study.dataset || '–')),
      make('td', { class: 'away started' }, study.changed === null ? '–' : shortTime(new Date(study.changed * 1000).toISOString()))));
    return [make('h2', {}, 'Studies'), make('div', { class: 'wide' }, make('table', { class: 'rows list studies' },
      make('thead', {}, make('tr', {}, ...heads.map(([text, kind]) => make('th', { scope: 'col', class: kind }, text)))), make('tbody', {}, ...lines)))];
  }
}

const lowered = (text) => text.slice(0, 1).toLowerCase() + text.slice(1);

/** A heading that sorts the list: first downwards where the larger value is the more interesting one. */
function sortedHead({ key, title, kind = '' }, params) {
  const sorted = params.get('sort') === key;
  const down = params.get('down') === '1';
  const first = ['metric', 'rows', 'failed', 'cost', 'started'].includes(key) ? '1' : null;
  const next = { sort: key, down: sorted ? (down ? null : '1') : first };
  const to = link(urlWith(next), title);
  to.addEventListener('click', (event) => { event.preventDefault(); go(next); });
  return make('th', { scope: 'col', class: kind, 'aria-sort': sorted ? (down ? 'descending' : 'ascending') : null }, to);
}
