// Rows that are in the page itself, and what is shown of them.

const PAGE = 50;

/** Whether a value passes the filter. The viewer's server has the same operations. */
function passes(value, operation, wanted) {
  if (operation === 'none') return value === null;
  if (operation === 'some') return value !== null;
  if (value === null) return operation === 'not';
  if (operation === 'has') return worded(value).toLowerCase().includes(wanted.toLowerCase());
  if (operation === 'least') return Number(value) >= Number(wanted);
  if (operation === 'most') return Number(value) <= Number(wanted);
  const same = typeof value === 'number' ? value === Number(wanted) : worded(value) === wanted;
  return same === (operation === 'is');
}

function compared(a, b, kind) {
  if (kind === 'outcome') return ORDER.indexOf(a) - ORDER.indexOf(b);
  return typeof a === 'number' && typeof b === 'number' ? a - b : worded(a).localeCompare(worded(b), 'en', { numeric: true });
}

class EmbeddedRows {
  constructor({ columns, stories, per }, lists) {
    this.columns = columns;
    this.packed = stories;
    this.per = per;
    this.unpacked = new Map();
    this.all = lists.map((values, position) => {
      const cells = Object.fromEntries(columns.map(([key], index) => [key, values[index]]));
      const words = values.slice(0, columns.length).map((value) => String(value ?? '')).join('\n').toLowerCase();
      return { position, id: cells.id, cells, words, story: values[columns.length] };
    });
    const counts = ORDER.map((name) => [name, this.all.filter(({ cells }) => cells.outcome === name).length]);
    this.outcomes = Object.fromEntries(counts.filter(([, n]) => n));
    if (!stories.length) this.load = null;
  }

  /** The rows that these parameters ask for, in their order. */
  found(params) {
    const words = (params.get('q') ?? '').toLowerCase().split(/\s+/).filter(Boolean);
    const filters = filtersOf(params);
    const rows = this.all.filter((row) => words.every((word) => row.words.includes(word))
      && filters.every(([column, operation, wanted]) => passes(row.cells[column] ?? null, operation, String(wanted ?? ''))));
    const sort = params.get('sort');
    const column = this.columns.find(([key]) => key === sort);
    if (!column) return rows;
    const sign = params.has('down') ? -1 : 1;
    return rows.sort(({ cells: a }, { cells: b }) => {
      if (a[sort] === null || b[sort] === null) return (a[sort] === null) - (b[sort] === null);
      return sign * compared(a[sort], b[sort], column[2]);
    });
  }

  page(params) {
    const rows = this.found(params);
    const page = Math.min(Number(params.get('page') ?? 0), Math.max(0, Math.ceil(rows.length / PAGE) - 1));
    const columns = this.columns.filter(([key]) => !params.has('c') || params.getAll('c').includes(key));
    return { total: rows.length, per: PAGE, page, columns, rows: rows.slice(page * PAGE, (page + 1) * PAGE), sort: params.get('sort'), down: params.has('down') };
  }

  row(position) {
    return this.all[position];
  }

  wrong(row, back, params) {
    const rows = this.found(params);
    const at = rows.indexOf(row);
    const isWrong = ({ cells }) => ['wrong', 'failed'].includes(cells.outcome) || cells.error > 0;
    return (back ? rows.slice(0, at).findLast(isWrong) : rows.slice(at + 1).find(isWrong)) ?? null;
  }

  async load(row) {
    const facts = this.columns.filter(([key, , , wide]) => !wide && key !== 'id' && row.cells[key] !== null).map(([key, title, kind]) => [title, row.cells[key], kind]);
    if (row.story === null) return [factList(facts), make('p', { class: 'note' }, 'The details of this row are not in this file; `verdict view` shows them.')];
    const piece = Math.floor(row.story / this.per);
    if (!this.unpacked.has(piece)) this.unpacked.set(piece, unpacked(this.packed[piece]).then(JSON.parse));
    return [factList(facts), ...told((await this.unpacked.get(piece))[row.story % this.per])];
  }
}

/** An address for a page that has none of its own. */
class MemoryAddress {
  constructor() {
    this.now = new URLSearchParams();
  }

  params() {
    return this.now;
  }

  href() {
    return null;
  }

  set(changes) {
    this.now = changedParams(this.now, changes);
  }

  go(changes) {
    this.set(changes);
    return this.browser.update();
  }
}

async function startBrowser(island) {
  const place = island.parentElement;
  try {
    const data = parsed(island);
    const pieces = await Promise.all(data.rows.map((piece) => unpacked(piece).then(JSON.parse)));
    const address = new MemoryAddress();
    address.browser = new RowBrowser(place, new EmbeddedRows(data, pieces.flat()), address);
    await address.browser.update();
  } catch (problem) {
    place.append(make('p', { class: 'notice' }, `The rows cannot be shown: ${problem.message}`));
  }
}
