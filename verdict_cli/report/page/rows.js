// The table of rows: search, filter, sort, and one page of rows at a time.

const PAGE = 50;

class Row {
  constructor(values, columns) {
    this.cells = Object.fromEntries(columns.map(([key], place) => [key, values[place]]));
    this.story = values[columns.length];
    this.columns = columns;
    this.words = values.slice(0, columns.length).map((value) => String(value ?? '')).join('\n').toLowerCase();
  }

  facts() {
    const list = make('dl', { class: 'facts' });
    for (const [key, title, kind, wide] of this.columns) {
      if (this.cells[key] !== null && !wide && key !== 'id') list.append(fact(visible(title), shown(this.cells[key], kind)));
    }
    return list;
  }
}

function compared(a, b, kind) {
  if (kind === 'outcome') return ORDER.indexOf(a) - ORDER.indexOf(b);
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true });
}

class Browser {
  constructor(place, data, rows) {
    this.columns = data.columns;
    this.rows = rows;
    this.packed = data.stories;
    this.per = data.per;
    this.stories = new Map();
    this.sort = null;
    this.page = 0;
    this.build(place);
    if (this.packed.length) {
      this.story = new Story((row) => this.load(row), (row, by) => this.beside(row, by), (row, back) => this.besideWrong(row, back));
      this.story.mayJump = () => Boolean(this.outcome);
      this.story.closed = (row) => this.focus(this.found.indexOf(row));
    }
    this.update();
  }

  build(place) {
    this.search = make('input', { type: 'search', placeholder: 'Search rows', 'aria-label': 'Search rows' });
    this.only = make('select', { 'aria-label': 'Which rows' });
    const outcome = this.columns.find(([, , kind]) => kind === 'outcome')?.[0];
    this.outcome = outcome;
    const count = (kind) => this.rows.filter((row) => row.cells[outcome] === kind).length;
    this.only.append(make('option', { value: '' }, `All (${number(this.rows.length)})`));
    this.only.hidden = !outcome;
    for (const kind of ORDER) {
      const n = outcome ? count(kind) : 0;
      if (n) this.only.append(make('option', { value: kind }, `${{ none: 'Not scored', wrong: 'Wrong', failed: 'Failed', right: 'Right' }[kind]} (${number(n)})`));
    }
    this.status = make('span', { class: 'told', role: 'status' });
    this.head = make('tr');
    this.body = make('tbody');
    this.earlier = make('button', { type: 'button' }, 'Previous page');
    this.later = make('button', { type: 'button' }, 'Next page');
    const widths = make('colgroup', {}, ...this.columns.map(([key, title, kind, wide]) => make('col', {
      class: wide ? 'away' : '', style: wide ? '' : `width: ${kind === 'outcome' ? 6.2 : this.width(key, title)}rem`,
    })));
    place.append(
      make('div', { class: 'tools' }, this.search, this.only, this.status),
      make('div', { class: 'wide' }, make('table', { class: 'rows' }, make('caption', { class: 'small' }, this.packed.length ? 'Arrow keys move, Enter opens a row, / searches, ? lists the keys.' : 'Arrow keys move, / searches.'),
        widths, make('thead', {}, this.head), this.body)),
      make('div', { class: 'tools' }, this.earlier, this.later),
    );
    for (const column of this.columns) this.head.append(this.heading(column));
    this.search.addEventListener('input', () => { this.page = 0; this.update(); });
    this.only.addEventListener('change', () => { this.page = 0; this.update(); });
    this.earlier.addEventListener('click', () => { this.page -= 1; this.update(); });
    this.later.addEventListener('click', () => { this.page += 1; this.update(); });
    this.body.addEventListener('click', (event) => {
      const line = event.target.closest('tr');
      if (line) this.story?.open(this.found[Number(line.dataset.at)]);
    });
    this.body.addEventListener('keydown', (event) => this.move(event));
    startKeys(this.search);
  }

  /** Room for a column's title and most of its values, in rem. */
  width(key, title) {
    const longest = Math.max(title.length, ...this.rows.slice(0, 200).map((row) => worded(row.cells[key]).length));
    return Math.min(Math.max(4, 1.9 + longest * 0.52), 9.5);
  }

  heading([key, title, kind, wide]) {
    const button = make('button', { type: 'button' }, visible(title));
    button.addEventListener('click', () => {
      const down = this.sort?.key === key && !this.sort.down;
      this.sort = { key, kind, down };
      for (const cell of this.head.children) cell.removeAttribute('aria-sort');
      button.parentElement.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      this.page = 0;
      this.update();
    });
    return make('th', { scope: 'col', class: `${kind === 'number' ? 'number' : ''} ${wide ? 'away' : ''}` }, button);
  }

  update() {
    const wanted = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const only = this.only.value;
    this.found = this.rows.filter((row) => (!only || row.cells[this.outcome] === only) && wanted.every((word) => row.words.includes(word)));
    if (this.sort) {
      const { key, kind, down } = this.sort;
      this.found.sort((a, b) => {
        const missing = (a.cells[key] === null) - (b.cells[key] === null);
        return missing || (down ? -1 : 1) * compared(a.cells[key], b.cells[key], kind);
      });
    }
    const pages = Math.max(1, Math.ceil(this.found.length / PAGE));
    this.page = Math.min(this.page, pages - 1);
    const start = this.page * PAGE;
    const some = this.found.slice(start, start + PAGE);
    this.body.replaceChildren(...some.map((row, place) => this.line(row, start + place)));
    this.status.textContent = some.length
      ? `${number(start + 1)}–${number(start + some.length)} of ${number(this.found.length)}`
      : 'No row matches';
    this.earlier.disabled = this.page === 0;
    this.later.disabled = this.page >= pages - 1;
  }

  line(row, at) {
    const cells = this.columns.map(([key, , kind, wide]) => {
      const content = shown(row.cells[key], kind);
      return make('td', { class: `${kind === 'number' ? 'number' : ''} ${wide ? 'away' : ''}` },
        key === 'id' ? make('button', { type: 'button', 'aria-haspopup': this.packed.length ? 'dialog' : null }, content) : content);
    });
    return make('tr', { 'data-at': at }, ...cells);
  }

  /** Puts the focus on a row's button, turning to its page. */
  focus(at) {
    if (at < 0 || at >= this.found.length) return;
    const page = Math.floor(at / PAGE);
    if (page !== this.page) {
      this.page = page;
      this.update();
    }
    this.body.children[at - page * PAGE].querySelector('button').focus();
  }

  move(event) {
    const line = event.target.closest('tr');
    const at = Number(line.dataset.at);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.found.length - 1, PageDown: Math.min(at + PAGE, this.found.length - 1), PageUp: Math.max(at - PAGE, 0) }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.focus(to);
  }

  beside(row, by) {
    return this.found[this.found.indexOf(row) + by] ?? null;
  }

  /** The next row found that is wrong or failed (`back`: the one before); null without one. */
  besideWrong(row, back) {
    const at = this.found.indexOf(row);
    const wrong = (each) => ['wrong', 'failed'].includes(each.cells[this.outcome]);
    return (back ? this.found.slice(0, at).findLast(wrong) : this.found.slice(at + 1).find(wrong)) ?? null;
  }

  async load(row) {
    if (row.story === null) return null;
    const piece = Math.floor(row.story / this.per);
    if (!this.stories.has(piece)) this.stories.set(piece, unpacked(this.packed[piece]).then(JSON.parse));
    return (await this.stories.get(piece))[row.story % this.per];
  }
}

async function startBrowser() {
  for (const island of document.querySelectorAll('script[data-island="browser"]')) {
    const place = island.parentElement;
    try {
      const data = parsed(island);
      const pieces = await Promise.all(data.rows.map((piece) => unpacked(piece).then(JSON.parse)));
      new Browser(place, data, pieces.flat().map((values) => new Row(values, data.columns)));
    } catch (problem) {
      place.append(make('p', { class: 'notice' }, `The rows cannot be shown: ${problem.message}`));
    }
  }
}
