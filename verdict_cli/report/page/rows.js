// The table of rows: search, filters, order, columns, and one page of rows at a time. A report and the viewer show it over
// different sources: the data of the page, or the answers of the server. An address holds what is shown, as parameters.

const OPERATIONS = [['is', 'is'], ['not', 'is not'], ['has', 'contains'], ['least', '≥'], ['most', '≤'], ['none', 'is empty'], ['some', 'is not empty']];
const OUTCOME_NAMES = { failed: 'Failed', wrong: 'Wrong', none: 'Not scored', right: 'Right' };

/** Parameters with these changes. null removes a parameter, a list sets several values. */
function changedParams(params, changes) {
  const changed = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    changed.delete(name);
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== '') changed.append(name, each);
    }
  }
  return changed;
}

/** The filters of the parameters: lists of column, operation and value. */
function filtersOf(params) {
  return params.getAll('f').map((text) => {
    try {
      const filter = JSON.parse(text);
      return Array.isArray(filter) ? filter : [text, 'has'];
    } catch {
      return [text, 'has'];
    }
  });
}

/** A select element. `options` are pairs of value and text. */
function makeSelect(label, options, value) {
  const select = make('select', { 'aria-label': label }, ...options.map(([key, text]) => make('option', { value: key }, visible(text))));
  select.value = value ?? '';
  return select;
}

/** Buttons to the previous and next page, and the text of the shown range. */
function pager({ total, per, page, size }, go) {
  const button = (text, to, disabled) => {
    const made = make('button', { type: 'button', disabled }, text);
    made.addEventListener('click', () => go({ page: to || null, row: null }));
    return made;
  };
  const text = size ? `${number(page * per + 1)}–${number(page * per + size)} of ${number(total)}` : 'No matching rows';
  return { text, element: make('div', { class: 'tools' }, button('Previous page', page - 1, page === 0), button('Next page', page + 1, (page + 1) * per >= total)) };
}

/**
 * The browser of rows. `source` has
 *   columns, a list of [key, title, kind, wide]; outcomes, the number of rows of each outcome;
 *   page(params): total, per, page, columns (those shown), rows ({ position, id, cells }), sort, down;
 *   load(row): elements of its details, or null; wrong(row, back, params): the next wrong row (the one before, if back), or null;
 *   row(position): the row at a position; label(row), optional: an element in which the row is labelled;
 *   delay, optional: the milliseconds to wait for the next key before a search.
 * `address` has params(), set(changes), go(changes, options), and href(changes), which gives null where a row has no address.
 */
class RowBrowser {
  constructor(place, source, address) {
    this.source = source;
    this.address = address;
    this.rows = [];
    this.build(place);
    if (source.load) this.story = new Story(this);
    this.columnsChanged();
    startKeys(this.search);
  }

  build(place) {
    this.search = make('input', { type: 'search', placeholder: 'Search rows', 'aria-label': 'Search rows' });
    this.which = makeSelect('Which rows', [], '');
    this.status = make('span', { class: 'told', role: 'status' });
    this.column = makeSelect('Column', [], '');
    this.operation = makeSelect('Comparison', OPERATIONS, 'is');
    this.value = make('input', { class: 'narrow', placeholder: 'Value', 'aria-label': 'Value' });
    this.boxes = make('fieldset', { 'aria-label': 'Columns' });
    this.chips = make('div', { class: 'chips' });
    this.results = make('div', {});
    const form = make('form', { class: 'tools' }, this.column, this.operation, this.value, make('button', {}, 'Add filter'));
    place.append(make('div', { class: 'tools' }, this.search, this.which, this.status),
      make('details', {}, make('summary', {}, 'Filters and columns'), form, this.boxes), this.chips, this.results);
    let typed;
    this.search.addEventListener('input', () => {
      clearTimeout(typed);
      typed = setTimeout(() => this.address.go({ q: this.search.value.trim(), page: null, row: null }, { replace: true }), this.source.delay);
    });
    this.which.addEventListener('change', () => {
      const others = this.filters().filter(([column]) => column !== 'outcome');
      this.setFilters(this.which.value ? [...others, ['outcome', 'is', this.which.value]] : others);
    });
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const value = ['none', 'some'].includes(this.operation.value) ? [] : [this.value.value];
      this.setFilters([...this.filters(), [this.column.value, this.operation.value, ...value]]);
      this.value.value = '';
    });
    this.boxes.addEventListener('change', () => this.address.go({ c: [...this.boxes.querySelectorAll('input:checked')].map((box) => box.value), page: null }));
  }

  /** Show the choices that depend on the source's columns. */
  columnsChanged() {
    const { columns, outcomes } = this.source;
    this.titles = Object.fromEntries(columns.map(([key, title]) => [key, title]));
    const chosen = this.column.value;
    this.column.replaceChildren(...columns.map(([key, title]) => make('option', { value: key }, visible(title))));
    if (chosen in this.titles) this.column.value = chosen;
    const total = Object.values(outcomes).reduce((sum, each) => sum + each, 0);
    const options = Object.entries(outcomes).map(([name, n]) => make('option', { value: name }, `${OUTCOME_NAMES[name]} (${number(n)})`));
    this.which.replaceChildren(make('option', { value: '' }, `All rows (${number(total)})`), ...options);
    this.which.hidden = !options.length;
    this.story?.showJumps();
  }

  /** The title of a column, or of an expression that has none. */
  title(key) {
    return this.titles[key] ?? String(key).replace(/^source\./, '');
  }

  filters() {
    return filtersOf(this.address.params());
  }

  setFilters(filters) {
    return this.address.go({ f: filters.map((filter) => JSON.stringify(filter)), page: null, row: null });
  }

  /** Show what the address says. */
  async update() {
    const params = this.address.params();
    const request = this.latest = {};
    if (document.activeElement !== this.search) this.search.value = params.get('q') ?? '';
    this.showFilters(this.filters());
    this.status.textContent = 'searching …';
    let data;
    try {
      data = await this.source.page(params);
    } catch (error) {
      if (request !== this.latest) return;
      this.results.replaceChildren();
      this.status.textContent = error.message;
      return;
    }
    if (request !== this.latest) return;
    this.show(data);
    const row = this.address.params().get('row'); // a row may have been opened meanwhile
    const open = this.story?.dialog.open;
    if (row === null && open) this.story.dialog.close();
    if (row !== null && !(open && String(this.story.row.position) === row)) await this.openPosition(Number(row));
  }

  showFilters(filters) {
    this.which.value = filters.find(([column, operation]) => column === 'outcome' && operation === 'is')?.[2] ?? '';
    this.chips.replaceChildren(...filters.map((filter, index) => {
      const [column, operation, value = ''] = filter;
      const sign = OPERATIONS.find(([key]) => key === operation)?.[1] ?? operation;
      const chip = make('button', { type: 'button', 'aria-label': `Remove the filter ${visible(filter.join(' '))}` }, said(`${this.title(column)} ${sign} ${value}`), ' ✕');
      chip.addEventListener('click', () => this.setFilters(filters.filter((_, other) => other !== index)));
      return chip;
    }));
  }

  show(data) {
    this.data = data;
    this.rows = data.rows;
    const pages = pager({ ...data, size: data.rows.length }, (changes) => this.address.go(changes));
    this.status.textContent = pages.text;
    this.boxes.replaceChildren(...this.source.columns.map(([key, title]) => make('label', {}, make('input', { type: 'checkbox', value: key, checked: data.columns.some(([shown]) => shown === key) }), said(title))));
    this.results.replaceChildren(this.table(data.columns), pages.element);
    showFolds(this.results);
  }

  table(columns) {
    const heads = columns.map((column) => this.heading(column));
    const widths = columns.map(([key, title, kind, wide]) => make('col', { class: wide ? 'away' : '', style: wide ? null : `width: ${this.width(key, title, kind)}rem` }));
    if (this.source.label) {
      heads.push(make('th', { scope: 'col', class: 'away' }, 'Your label'));
      widths.push(make('col', { class: 'away', style: 'width: 8rem' }));
    }
    const body = make('tbody', {}, ...this.rows.map((row) => this.line(row, columns)));
    body.addEventListener('keydown', (event) => this.move(event, [...body.children]));
    return make('div', { class: 'wide' }, make('table', { class: 'rows' }, make('colgroup', {}, ...widths), make('thead', {}, make('tr', {}, ...heads)), body));
  }

  /** Room for a column's title and most of its values, in rem. */
  width(key, title, kind) {
    if (kind === 'outcome') return 7;
    const arrow = key === this.data.sort ? 2 : 0;
    const longest = Math.max(title.length + arrow, ...this.rows.map((row) => worded(row.cells[key]).length));
    return Math.min(Math.max(4.5, 2 + longest * 0.53), 11);
  }

  heading([key, title, kind, wide]) {
    const sorted = this.data.sort === key;
    const button = make('button', { type: 'button' }, visible(title));
    button.addEventListener('click', () => this.address.go({ sort: key, down: sorted && !this.data.down ? '1' : null, page: null, row: null }));
    return make('th', { scope: 'col', class: classOf(kind, wide), 'aria-sort': sorted ? (this.data.down ? 'descending' : 'ascending') : null }, button);
  }

  line(row, columns) {
    const cells = columns.map(([key, , kind, wide]) => {
      const value = row.cells[key] ?? null;
      const content = wide && typeof value === 'string' ? foldedText(visible(value.replace(/\s+/g, ' '))) : [shown(value, kind)];
      return make('td', { class: classOf(kind, wide) }, ...(key === 'id' ? [this.opener(row, content)] : content));
    });
    if (this.source.label) cells.push(make('td', { class: 'away' }, this.source.label(row)));
    const line = make('tr', {}, ...cells);
    line.addEventListener('click', (event) => {
      if (!this.story || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest('select')) return;
      event.preventDefault();
      this.story.open(row);
    });
    return line;
  }

  /** The link or button that opens a row. */
  opener(row, content) {
    const href = this.address.href({ row: row.position });
    return href ? make('a', { class: 'opener', href }, ...content) : make('button', { class: 'opener', type: 'button', 'aria-haspopup': this.story ? 'dialog' : null }, ...content);
  }

  /** Arrow keys and those for pages move between rows, also of other pages. */
  async move(event, lines) {
    if (event.target.closest('select')) return;
    const { per, page, total } = this.data;
    const at = page * per + lines.indexOf(event.target.closest('tr'));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: total - 1, PageDown: Math.min(at + per, total - 1), PageUp: Math.max(at - per, 0) }[event.key];
    if (to === undefined || to < 0 || to >= total) return;
    event.preventDefault();
    this.focus(await this.turnTo(to));
  }

  focus(row) {
    this.results.querySelectorAll('tbody tr')[this.rows.indexOf(row)]?.querySelector('.opener')?.focus();
  }

  /** The row of this place in the whole list, turning to its page. */
  async turnTo(place) {
    const page = Math.floor(place / this.data.per);
    if (page !== this.data.page) await this.address.go({ page: page || null });
    return this.rows[place - page * this.data.per] ?? null;
  }

  /** The place of a row in the whole list and `by` rows on; -1 where there is none. */
  placeBeside(row, by) {
    const at = this.rows.findIndex((each) => each.position === row.position);
    const place = this.data.page * this.data.per + at + by;
    return at < 0 || place >= this.data.total ? -1 : place;
  }

  // What the details ask for.

  reaches(row, by) {
    return this.placeBeside(row, by) >= 0;
  }

  beside(row, by) {
    const place = this.placeBeside(row, by);
    return place < 0 ? null : this.turnTo(place);
  }

  hasWrong() {
    return Object.keys(this.source.outcomes).length > 0 || 'error' in this.titles;
  }

  async wrong(row, back) {
    const found = await this.source.wrong(row, back, this.address.params());
    return this.rows.find((each) => each.position === found?.position) ?? found;
  }

  load(row) {
    return this.source.load(row);
  }

  opened(row) {
    if (this.address.params().get('row') !== String(row.position)) this.address.set({ row: row.position });
  }

  closed(row) {
    if (this.address.params().has('row')) this.address.set({ row: null });
    this.focus(this.rows.find((each) => each.position === row.position));
    if (this.stale) this.update();
    this.stale = false;
  }

  async openPosition(position) {
    try {
      await this.story?.open(this.rows.find((row) => row.position === position) ?? await this.source.row(position));
    } catch (error) {
      this.status.textContent = error.message;
    }
  }
}

const classOf = (kind, wide) => [['number', 'money'].includes(kind) ? 'number' : '', wide ? 'away long' : ''].join(' ').trim();
