// One run: its facts and its table of rows, or its progress while it is running.

/** What the run is; a finished run has its results in the cards. */
function runFacts(run) {
  const facts = [['Status', run.summary ? stateMark({ ...run, gates: run.summary.gates.map(({ metric, verdict, passed }) => [metric, verdict, passed]) }) : said(run.status)], ['Rows', number(run.rows)], ['Failed', number(run.failed)]];
  if (run.abstained) facts.push(['Abstained', number(run.abstained)]);
  facts.push(['Calls', number(run.calls)], ['Cost', money(run.cost_usd)], ['Time', duration(run.wall_s)], ['Models', said(Object.keys(run.models).join(', ') || '–')], ['Dataset', said(run.dataset)], ['Started', said(formatTime(run.started))]);
  const left = run.summary ? facts.filter(([name]) => !['Rows', 'Failed', 'Abstained', 'Calls', 'Cost', 'Time', 'Dataset'].includes(name)) : facts;
  return make('dl', { class: 'facts' }, ...left.map(([name, value]) => {
    const made = fact(name, value);
    if (['Time', 'Dataset', 'Started', 'Models'].includes(name)) made.className = 'lesser';
    return made;
  }));
}

/** The rows of a run, asked of the server. */
class ServedRows {
  constructor(owner) {
    this.owner = owner;
    this.delay = 250;
    this.changed();
  }

  /** Take over what the page knows of the run. */
  changed() {
    const { run } = this.owner;
    this.columns = run.columns;
    this.outcomes = run.outcomes;
    this.label = hasChoices(run.answers) ? (row) => labelChoice(run.run, row, run.answers, () => this.owner.onLabelSaved(false)) : null;
  }

  ask(path, changes) {
    return fetchJson(path, { run: this.owner.name, ...changes });
  }

  query(params) {
    return { q: params.get('q'), f: params.getAll('f'), sort: params.get('sort'), down: params.get('down') };
  }

  page(params) {
    return this.ask('/api/rows', { ...this.query(params), c: params.getAll('c'), page: params.get('page') });
  }

  row(position) {
    return this.ask('/api/row', { row: position });
  }

  async wrong(row, back, params) {
    const { row: position } = await this.ask('/api/wrong', { ...this.query(params), row: row.position, back: back ? '1' : null });
    return position === null ? null : this.row(position);
  }

  async load({ position }) {
    const { id, facts, human, others, answers, story } = await this.row(position);
    return [factList(facts), labelForm(this.owner.name, position, id, human, answers, () => this.owner.onLabelSaved(true)), ...fields('Labels of others', others), ...told(story)];
  }
}

class RunPage {
  constructor() {
    this.name = urlParams().get('run') ?? '';
  }

  async start() {
    this.run = await fetchJson('/api/run', { run: this.name });
    document.getElementById('trail').append(make('li', {}, link(urlWith({ run: this.name }, '/run'), said(this.name))));
    if (this.run.live) {
      await this.follow();
      return;
    }
    if (this.run.hidden) {
      this.head(make('p', { class: 'notice' }, 'This queue is blind: the verdicts are shown once your part of it is labelled.'));
      return;
    }
    this.build();
    await this.update();
    while (!this.run.ready) {
      await sleep(600);
      this.run = await fetchJson('/api/run', { run: this.name });
      if (this.run.ready) {
        this.source.changed();
        this.browser.columnsChanged();
        await this.update();
      }
    }
  }

  /** The conclusion, the cards and the rest above the rows, with the filters of the address marked. */
  showOverview() {
    this.top.replaceChildren(...overview(this));
  }

  head(...rest) {
    const links = make('p', {}, ...(this.run.columns ? [make('a', { href: '#rows' }, 'Rows'), ' · '] : []));
    if (this.run.queue) links.append(link(urlWith({ run: this.name }, '/queue'), this.run.annotator ? `Label as ${visible(this.run.annotator)}` : 'Label the queue'), ' · ');
    if (this.run.report) links.append(link(urlWith({ run: this.name }, '/report'), 'Report'), ' · ');
    const other = make('button', { type: 'button' }, 'Compare with another run');
    other.addEventListener('click', async () => {
      const { runs } = await fetchJson('/api/runs');
      const options = runs.filter((run) => run.run !== this.name && run.done).map((run) => [run.run, run.run]);
      const select = makeSelect('Other run', [['', options.length ? 'Choose a run' : 'No other runs'], ...options], '');
      select.addEventListener('change', () => window.location.assign(urlWith({ a: select.value, b: this.name }, '/compare')));
      other.replaceWith(select);
      select.focus();
    });
    links.append(other);
    const { summary } = this.run;
    const opening = summary ? [...(summary.conclusion ? [make('p', { class: 'conclusion' }, said(`${summary.conclusion}.`))] : []), cards(this.run)] : [];
    return showPage('Run', this.run.run, make('p', { class: 'lead' }, 'Pipeline ', said(this.run.name), ...(this.run.dataset ? [' on ', said(this.run.dataset)] : [])), ...(this.notices ?? []), links, ...opening, runFacts(this.run), ...rest);
  }

  async follow() {
    shownPage = null;
    while (this.run.live) {
      const { live } = this.run;
      const units = live.units.map(({ unit, answered, failed }) => make('tr', {}, make('th', { scope: 'row' }, said(unit)), make('td', { class: 'number' }, number(answered)), make('td', { class: 'number' }, number(failed))));
      const latest = live.latest.map((call) => make('tr', {}, make('td', {}, said(call.unit)), make('td', { class: 'away' }, said(call.model)), make('td', { class: 'number' }, `${call.seconds.toFixed(2)} s`), make('td', {}, said(call.failure || call.reply.replace(/\s+/g, ' ').slice(0, 120)))));
      const summary = `${number(live.started)} of ${number(this.run.rows)} rows started, ${money(live.cost_usd)}, ${number(live.tokens[0])} + ${number(live.tokens[1])} tokens`;
      const notice = live.idle_s > 30 ? [make('p', { class: 'notice' }, `No call has finished for ${duration(live.idle_s)}: the run may have stopped. Rerun the same command to resume it.`)] : [];
      this.head(make('section', {}, make('h2', {}, 'Progress'), make('progress', { max: Math.max(1, this.run.rows), value: live.started, 'aria-label': 'Rows started' }), make('p', { role: 'status' }, summary), ...notice,
        make('div', { class: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'Unit'), make('th', { scope: 'col', class: 'number' }, 'Answered'), make('th', { scope: 'col', class: 'number' }, 'Failed'))), make('tbody', {}, ...units)))),
      make('section', {}, make('h2', {}, 'Latest calls'), make('div', { class: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, ...[['Unit', ''], ['Model', 'away'], ['Time', 'number'], ['Reply', '']].map(([text, kind]) => make('th', { scope: 'col', class: kind }, text)))), make('tbody', {}, ...latest)))));
      await sleep(2000);
      this.run = await fetchJson('/api/run', { run: this.name });
    }
    window.location.reload();
  }

  build() {
    this.top = make('div', {});
    this.corrected = new CorrectedSection(this.name);
    const notices = [...this.run.notices, ...(this.run.error ? [this.run.error] : [])].map((text) => make('p', { class: 'notice' }, said(text)));
    this.notices = notices;
    const rows = make('section', { id: 'rows' }, make('h2', {}, 'Rows'));
    this.head(this.top, this.corrected.element, rows);
    this.source = new ServedRows(this);
    this.browser = new RowBrowser(rows, this.source, pageAddress);
    this.corrected.show(this.run);
  }

  async update() {
    this.showOverview();
    await this.browser.update();
  }

  /** Measure again with the new label; the table is loaded again where the label was given elsewhere. */
  async onLabelSaved(elsewhere) {
    this.browser.stale ||= elsewhere;
    this.run = await fetchJson('/api/run', { run: this.name });
    await this.corrected.show(this.run);
  }
}
