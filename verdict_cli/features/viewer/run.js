// One run: its facts and its table of rows, or its progress while it is running.

const OPERATIONS = [['is', 'is'], ['not', 'is not'], ['has', 'contains'], ['least', '≥'], ['most', '≤'], ['none', 'is empty'], ['some', 'is not empty']];
const WHICH = [['', 'All rows'], ['wrong', 'Wrong'], ['failed', 'Failed'], ['right', 'Right'], ['none', 'Not scored']];

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

/** A row, as shown in the details dialog. */
class ShownRow {
  constructor(position, id, page) {
    this.position = position;
    this.cells = { id };
    this.page = page;
  }

  facts() {
    return make('div');
  }

  beside() {
    const { facts, human, position } = this.details;
    const kinds = { outcome: 'outcome' };
    const list = Object.entries(facts).filter(([name, value]) => value !== null && (name !== 'status' || value !== 'ok'));
    return [
      make('dl', { class: 'facts' }, ...list.map(([name, value]) => fact(visible(columnTitle(name)), name === 'cost_usd' ? money(value) : shown(value, kinds[name] ?? '')))),
      labelForm(this.page.name, position, this.details.id, human, this.details.answers, () => this.page.onLabelSaved(true)),
      ...fields('Labels of others', this.details.others),
    ];
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
        this.columnsChanged();
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
    this.search = make('input', { type: 'search', placeholder: 'Search rows', 'aria-label': 'Search rows' });
    this.which = makeSelect('Which rows', WHICH, '');
    this.status = make('span', { class: 'told', role: 'status' });
    this.column = makeSelect('Column', [], '');
    this.operation = makeSelect('Comparison', OPERATIONS, 'is');
    this.value = make('input', { class: 'narrow', placeholder: 'Value', 'aria-label': 'Value' });
    this.chips = make('div', { class: 'chips' });
    this.boxes = make('fieldset', { 'aria-label': 'Columns' });
    this.results = make('div', {});
    const form = make('form', { class: 'tools' }, this.column, this.operation, this.value, make('button', {}, 'Add filter'));
    this.top = make('div', {});
    this.corrected = new CorrectedSection(this.name);
    const notices = [...this.run.notices, ...(this.run.error ? [this.run.error] : [])].map((text) => make('p', { class: 'notice' }, said(text)));
    this.notices = notices;
    this.head(this.top, this.corrected.element, make('section', { id: 'rows' }, make('h2', {}, 'Rows'),
      make('div', { class: 'tools' }, this.search, this.which, this.status),
      make('details', {}, make('summary', {}, 'Filters and columns'), form, this.boxes), this.chips, this.results));
    this.columnsChanged();
    this.corrected.show(this.run);
    let typed;
    this.search.addEventListener('input', () => {
      clearTimeout(typed);
      typed = setTimeout(() => go({ q: this.search.value.trim(), page: null, row: null }, { replace: true }), 250);
    });
    this.which.addEventListener('change', () => {
      const others = this.filters().filter(([column]) => column !== 'outcome');
      this.setFilters(this.which.value ? [...others, ['outcome', 'is', this.which.value]] : others);
    });
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.setFilters([...this.filters(), [this.column.value, this.operation.value, ...(['none', 'some'].includes(this.operation.value) ? [] : [this.value.value])]]);
      this.value.value = '';
    });
    this.boxes.addEventListener('change', () => go({ c: [...this.boxes.querySelectorAll('input:checked')].map((box) => box.value), page: null }));
    this.story = new Story((row) => this.load(row), (row, by) => this.rows[this.rows.findIndex((each) => each.position === row.position) + by] ?? null, (row, back) => this.wrongRow(row, back));
    this.story.mayJump = () => 'outcome' in this.run.columns || 'error' in this.run.columns;
    const open = this.story.open.bind(this.story);
    this.story.open = (row) => {
      if (urlParams().get('row') !== String(row.position)) window.history.pushState(null, '', urlWith({ row: row.position }));
      return open(row);
    };
    this.story.closed = (row) => {
      if (urlParams().has('row')) window.history.pushState(null, '', urlWith({ row: null }));
      const at = this.rows.findIndex((each) => each.position === row.position);
      this.results.querySelectorAll('tbody tr')[at]?.querySelector('a')?.focus();
      if (this.stale) this.update();
    };
    startKeys(this.search);
  }

  columnsChanged() {
    const { columns } = this.run;
    const names = Object.keys(columns);
    const value = this.column.value;
    this.column.replaceChildren(...names.map((name) => make('option', { value: name }, visible(columnTitle(name)))));
    if (names.includes(value)) this.column.value = value;
    this.which.hidden = !names.includes('outcome');
    this.story?.showJumps();
  }

  filters() {
    return urlParams().getAll('f').map((text) => {
      try {
        const filter = JSON.parse(text);
        return Array.isArray(filter) ? filter : [text, 'has'];
      } catch {
        return [text, 'has'];
      }
    });
  }

  setFilters(filters) {
    return go({ f: filters.map((filter) => JSON.stringify(filter)), page: null, row: null });
  }

  async update() {
    this.stale = false;
    const params = urlParams();
    const request = this.latestRequest = {};
    if (document.activeElement !== this.search) this.search.value = params.get('q') ?? '';
    const filters = this.filters();
    this.which.value = filters.find(([column, operation]) => column === 'outcome' && operation === 'is')?.[2] ?? '';
    this.chips.replaceChildren(...filters.map((filter, index) => {
      const operator = OPERATIONS.find(([key]) => key === filter[1])?.[1] ?? filter[1];
      const chip = make('button', { type: 'button', 'aria-label': `Remove the filter ${visible(filter.join(' '))}` }, said(`${columnTitle(String(filter[0]))} ${operator} ${filter[2] ?? ''}`), ' ✕');
      chip.addEventListener('click', () => this.setFilters(filters.filter((_, other) => other !== index)));
      return chip;
    }));
    this.showOverview();
    this.status.textContent = 'searching …';
    let data;
    try {
      data = await fetchJson('/api/rows', { run: this.name, q: params.get('q'), f: params.getAll('f'), c: params.getAll('c'), sort: params.get('sort'), down: params.get('down'), page: params.get('page') });
    } catch (error) {
      if (request !== this.latestRequest) return;
      this.results.replaceChildren();
      this.status.textContent = error.message;
      return;
    }
    if (request !== this.latestRequest) return;
    this.rows = data.rows.map((row) => new ShownRow(row.position, row.id, this));
    const last = Math.max(0, Math.ceil(data.total / data.per) - 1);
    const pages = pager({ total: data.total, per: data.per, page: Math.min(Number(params.get('page') ?? 0), last), size: data.rows.length });
    this.status.textContent = pages.text;
    this.boxes.replaceChildren(...Object.keys(this.run.columns).map((name) => make('label', {}, make('input', { type: 'checkbox', value: name, checked: data.columns.some(([shown]) => shown === name) }), said(columnTitle(name)))));
    const shownRows = new Map(data.rows.map((row, index) => [row, this.rows[index]]));
    const choices = hasChoices(this.run.answers);
    this.results.replaceChildren(rowsTable({
      columns: data.columns, rows: data.rows, sort: data.sort, label: choices ? (row) => labelChoice(this.name, row, this.run.answers, () => this.onLabelSaved(false)) : null, down: data.down,
      href: (row) => urlWith({ row: row.position }), open: (row) => this.story.open(shownRows.get(row)),
    }), pages.element);
    showFolds(this.results);
    const row = urlParams().get('row');
    if (row !== null && !(this.story.dialog.open && String(this.story.row.position) === row)) await this.openPosition(Number(row));
    if (row === null && this.story.dialog.open) this.story.dialog.close();
  }

  async openPosition(position) {
    const known = this.rows.find((row) => row.position === position);
    try {
      const details = known ?? (await fetchJson('/api/row', { run: this.name, row: position }));
      await this.story.open(known ?? new ShownRow(position, details.id, this));
    } catch (error) {
      this.status.textContent = error.message;
    }
  }

  async load(row) {
    row.details = await fetchJson('/api/row', { run: this.name, row: row.position });
    return row.details.story;
  }

  /** The next row of this query that is wrong or failed (`back`: the one before), on whatever page; null without one. */
  async wrongRow(row, back) {
    const params = urlParams();
    const data = await fetchJson('/api/wrong', { run: this.name, row: row.position, back: back ? '1' : null, q: params.get('q'), f: params.getAll('f'), sort: params.get('sort'), down: params.get('down') });
    if (data.row === null) return null;
    return this.rows.find((each) => each.position === data.row) ?? new ShownRow(data.row, (await fetchJson('/api/row', { run: this.name, row: data.row })).id, this);
  }

  /** Measure again with the new label; the table is loaded again where the label was given elsewhere. */
  async onLabelSaved(elsewhere) {
    this.stale ||= elsewhere;
    this.run = await fetchJson('/api/run', { run: this.name });
    await this.corrected.show(this.run);
  }
}
