// One run: its facts, and its rows searched, filtered, sorted, opened and labelled; or its progress while it goes on.

const OPERATIONS = [['is', 'is'], ['not', 'is not'], ['has', 'contains'], ['least', '≥'], ['most', '≤'], ['none', 'is empty'], ['some', 'is not empty']];
const WHICH = [['', 'All rows'], ['wrong', 'Wrong'], ['failed', 'Failed'], ['right', 'Right'], ['none', 'Not scored']];

function runFacts(run) {
  const facts = [['Status', said(run.status)], ['Rows', number(run.rows)], ['Failed', number(run.failed)]];
  if (run.abstained) facts.push(['Abstained', number(run.abstained)]);
  facts.push(['Calls', number(run.calls)], ['Cost', money(run.cost_usd)], ['Time', duration(run.wall_s)], ['Models', said(Object.keys(run.models).join(', ') || '–')], ['Dataset', said(run.dataset)], ['Started', said(moment(run.started))]);
  if (run.headline) facts.unshift([`${visible(run.headline.evaluation)} ${visible(run.headline.metric)}`, figure(run.headline)]);
  return make('dl', { class: 'facts' }, ...facts.map(([name, value]) => {
    const made = fact(name, value);
    if (['Time', 'Dataset', 'Started', 'Models'].includes(name)) made.className = 'lesser';
    return made;
  }));
}

/** A row of the table as a story shows it. */
class ShownRow {
  constructor(place, id, page) {
    this.place = place;
    this.cells = { id };
    this.page = page;
  }

  facts() {
    return make('div');
  }

  beside() {
    const { facts, human, place } = this.told;
    const kinds = { outcome: 'outcome' };
    const list = Object.entries(facts).filter(([name, value]) => value !== null && (name !== 'status' || value !== 'ok'));
    return [
      make('dl', { class: 'facts' }, ...list.map(([name, value]) => fact(visible(titled(name)), name === 'cost_usd' ? money(value) : shown(value, kinds[name] ?? '')))),
      labelForm(this.page.name, place, human, this.told.answers, () => this.page.labelled()),
    ];
  }
}

class RunPage {
  constructor() {
    this.name = asked().get('run') ?? '';
  }

  async start() {
    this.run = await fetched('/api/run', { run: this.name });
    document.getElementById('trail').append(make('li', {}, link(addressed({ run: this.name }, '/run'), said(this.name))));
    if (this.run.live) {
      await this.follow();
      return;
    }
    this.build();
    await this.update();
    while (!this.run.ready) {
      await waited(600);
      this.run = await fetched('/api/run', { run: this.name });
      if (this.run.ready) {
        this.columnsChanged();
        await this.update();
      }
    }
  }

  head(...rest) {
    const links = make('p', {});
    if (this.run.report) links.append(link(addressed({ run: this.name }, '/report'), 'Report'), ' · ');
    const other = make('button', { type: 'button' }, 'Compare with another run');
    other.addEventListener('click', async () => {
      const { runs } = await fetched('/api/runs');
      const options = runs.filter((run) => run.run !== this.name && run.done).map((run) => [run.run, run.run]);
      const select = choice('The other run', [['', options.length ? 'Choose a run' : 'There is no other run'], ...options], '');
      select.addEventListener('change', () => window.location.assign(addressed({ a: select.value, b: this.name }, '/compare')));
      other.replaceWith(select);
      select.focus();
    });
    links.append(other);
    return headed('Run', this.run.run, make('p', { class: 'lead' }, said(this.run.name)), runFacts(this.run), links, ...rest);
  }

  async follow() {
    shownPage = null;
    while (this.run.live) {
      const { live } = this.run;
      const units = live.units.map(({ unit, answered, failed }) => make('tr', {}, make('th', { scope: 'row' }, said(unit)), make('td', { class: 'number' }, number(answered)), make('td', { class: 'number' }, number(failed))));
      const latest = live.latest.map((call) => make('tr', {}, make('td', {}, said(call.unit)), make('td', { class: 'away' }, said(call.model)), make('td', { class: 'number' }, `${call.seconds.toFixed(2)} s`), make('td', {}, said(call.failure || call.reply.replace(/\s+/g, ' ').slice(0, 120)))));
      const words = `${number(live.begun)} of ${number(this.run.rows)} rows begun, ${money(live.cost_usd)}, ${number(live.tokens[0])} + ${number(live.tokens[1])} tokens`;
      const quiet = live.quiet_s > 30 ? [make('p', { class: 'notice' }, `No call has ended for ${duration(live.quiet_s)}: the run may have been stopped; the same command goes on with it.`)] : [];
      this.head(make('section', {}, make('h2', {}, 'Progress'), make('progress', { max: Math.max(1, this.run.rows), value: live.begun, 'aria-label': 'Rows begun' }), make('p', { role: 'status' }, words), ...quiet,
        make('div', { class: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'Unit'), make('th', { scope: 'col', class: 'number' }, 'Answered'), make('th', { scope: 'col', class: 'number' }, 'Failed'))), make('tbody', {}, ...units)))),
      make('section', {}, make('h2', {}, 'Latest calls'), make('div', { class: 'wide' }, make('table', {}, make('tbody', {}, ...latest)))));
      await waited(2000);
      this.run = await fetched('/api/run', { run: this.name });
    }
    window.location.reload();
  }

  build() {
    this.search = make('input', { type: 'search', placeholder: 'Search rows', 'aria-label': 'Search rows' });
    this.which = choice('Which rows', WHICH, '');
    this.status = make('span', { class: 'told', role: 'status' });
    this.column = choice('Column', [], '');
    this.operation = choice('Comparison', OPERATIONS, 'is');
    this.value = make('input', { class: 'narrow', placeholder: 'Value', 'aria-label': 'Value' });
    this.chips = make('div', { class: 'chips' });
    this.boxes = make('fieldset', { 'aria-label': 'Columns' });
    this.place = make('div', {});
    const form = make('form', { class: 'tools' }, this.column, this.operation, this.value, make('button', {}, 'Add filter'));
    const notices = this.run.trouble ? [make('p', { class: 'notice' }, said(this.run.trouble))] : [];
    if (this.run.status !== 'finished') notices.push(make('p', { class: 'notice' }, `This run is ${visible(this.run.status)}: ${number(this.run.done)} of its ${number(this.run.rows)} rows are here.`));
    this.head(...notices, make('section', {}, make('h2', {}, 'Rows'),
      make('div', { class: 'tools' }, this.search, this.which, this.status),
      make('details', {}, make('summary', {}, 'Filters and columns'), form, this.boxes), this.chips, this.place));
    this.columnsChanged();
    let typed;
    this.search.addEventListener('input', () => {
      clearTimeout(typed);
      typed = setTimeout(() => go({ q: this.search.value.trim(), page: null, row: null }, { replace: true }), 250);
    });
    this.which.addEventListener('change', () => {
      const others = this.filters().filter(([column]) => column !== 'outcome');
      this.filtered(this.which.value ? [...others, ['outcome', 'is', this.which.value]] : others);
    });
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.filtered([...this.filters(), [this.column.value, this.operation.value, ...(['none', 'some'].includes(this.operation.value) ? [] : [this.value.value])]]);
      this.value.value = '';
    });
    this.boxes.addEventListener('change', () => go({ c: [...this.boxes.querySelectorAll('input:checked')].map((box) => box.value), page: null }));
    this.story = new Story((row) => this.load(row), (row, by) => this.rows[this.rows.findIndex((each) => each.place === row.place) + by] ?? null);
    const open = this.story.open.bind(this.story);
    this.story.open = (row) => {
      if (asked().get('row') !== String(row.place)) window.history.pushState(null, '', addressed({ row: row.place }));
      return open(row);
    };
    this.story.closed = (row) => {
      if (asked().has('row')) window.history.pushState(null, '', addressed({ row: null }));
      const at = this.rows.findIndex((each) => each.place === row.place);
      this.place.querySelectorAll('tbody tr')[at]?.querySelector('a')?.focus();
      if (this.stale) this.update();
    };
    document.addEventListener('keydown', (event) => {
      if (event.key === '/' && !event.target.closest('input, select, textarea, dialog')) {
        event.preventDefault();
        this.search.focus();
      }
    });
  }

  columnsChanged() {
    const { columns } = this.run;
    const names = Object.keys(columns);
    const value = this.column.value;
    this.column.replaceChildren(...names.map((name) => make('option', { value: name }, visible(titled(name)))));
    if (names.includes(value)) this.column.value = value;
    this.which.hidden = !names.includes('outcome');
  }

  filters() {
    return asked().getAll('f').map((text) => {
      try {
        const found = JSON.parse(text);
        return Array.isArray(found) ? found : [text, 'has'];
      } catch {
        return [text, 'has'];
      }
    });
  }

  filtered(filters) {
    return go({ f: filters.map((filter) => JSON.stringify(filter)), page: null, row: null });
  }

  async update() {
    this.stale = false;
    const now = asked();
    const mine = this.asking = {};
    if (document.activeElement !== this.search) this.search.value = now.get('q') ?? '';
    const filters = this.filters();
    this.which.value = filters.find(([column, operation]) => column === 'outcome' && operation === 'is')?.[2] ?? '';
    this.chips.replaceChildren(...filters.map((filter, place) => {
      const words = OPERATIONS.find(([key]) => key === filter[1])?.[1] ?? filter[1];
      const chip = make('button', { type: 'button', 'aria-label': `Remove the filter ${visible(filter.join(' '))}` }, said(`${titled(String(filter[0]))} ${words} ${filter[2] ?? ''}`), ' ✕');
      chip.addEventListener('click', () => this.filtered(filters.filter((_, other) => other !== place)));
      return chip;
    }));
    this.status.textContent = 'searching …';
    let found;
    try {
      found = await fetched('/api/rows', { run: this.name, q: now.get('q'), f: now.getAll('f'), c: now.getAll('c'), sort: now.get('sort'), down: now.get('down'), page: now.get('page') });
    } catch (problem) {
      if (mine !== this.asking) return;
      this.place.replaceChildren();
      this.status.textContent = problem.message;
      return;
    }
    if (mine !== this.asking) return;
    this.rows = found.rows.map((row) => new ShownRow(row.place, row.id, this));
    const last = Math.max(0, Math.ceil(found.total / found.per) - 1);
    const pages = pager({ total: found.total, per: found.per, page: Math.min(Number(now.get('page') ?? 0), last), size: found.rows.length });
    this.status.textContent = pages.text;
    this.boxes.replaceChildren(...Object.keys(this.run.columns).map((name) => make('label', {}, make('input', { type: 'checkbox', value: name, checked: found.columns.some(([shown]) => shown === name) }), said(titled(name)))));
    const at = new Map(found.rows.map((row, place) => [row, this.rows[place]]));
    this.place.replaceChildren(rowsTable({
      columns: found.columns, rows: found.rows, sort: now.get('sort'), down: now.get('down') === '1',
      href: (row) => addressed({ row: row.place }), open: (row) => this.story.open(at.get(row)),
    }), pages.element);
    const row = asked().get('row');
    if (row !== null && !(this.story.dialog.open && String(this.story.row.place) === row)) await this.openPlace(Number(row));
    if (row === null && this.story.dialog.open) this.story.dialog.close();
  }

  async openPlace(place) {
    const known = this.rows.find((row) => row.place === place);
    try {
      const told = known ?? (await fetched('/api/row', { run: this.name, row: place }));
      await this.story.open(known ?? new ShownRow(place, told.id, this));
    } catch (problem) {
      this.status.textContent = problem.message;
    }
  }

  async load(row) {
    row.told = await fetched('/api/row', { run: this.name, row: row.place });
    return row.told.story;
  }

  labelled() {
    this.stale = true;
  }
}
