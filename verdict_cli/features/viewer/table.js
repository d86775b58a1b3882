// The table of rows: one page of a query.

const columnTitle = (name) => ({ id: 'Row', outcome: 'Outcome', prediction: 'Prediction', target: 'Target', error: 'Error', 'output.explanation': 'Explanation', 'failure.kind': 'Failure', 'human.label': 'Label', 'human.note': 'Note', which: 'Which', gain: 'Gain', calls: 'Calls', cost_usd: 'Cost', status: 'Status' }[name] ?? name.replace(/^source\./, ''));

const isWide = (name) => name.startsWith('source.') || name === 'human.note' || isExplanation(name);
const isExplanation = (name) => name.endsWith('.explanation');

/** The content of a cell; a long text is folded. */
function cellContent(name, value, kind) {
  const content = shown(value, kind);
  return isWide(name) && typeof value === 'string' ? foldedText(visible(value.replace(/\s+/g, ' '))) : [content];
}

/** The width of a column in rem: enough for its title and most values. */
function columnWidth(name, title, rows) {
  if (name === 'outcome') return 7;
  const longest = Math.max(title.length, ...rows.map((row) => worded(row.cells[name]).length));
  return Math.min(Math.max(4.5, 2 + longest * 0.53), 11);
}

/** A table of rows. `open(row)` is called when a row is clicked; `label(row)` makes a last cell, in which a row is labelled. */
function rowsTable({ columns, rows, sort, down, href, open, label }) {
  const heads = columns.map(([name, kind]) => {
    const sorted = sort === name;
    const to = link(urlWith({ sort: name, down: sorted && !down ? '1' : null, page: null, row: null }), visible(columnTitle(name)));
    to.addEventListener('click', (event) => { event.preventDefault(); go({ sort: name, down: sorted && !down ? '1' : null, page: null, row: null }); });
    return make('th', { scope: 'col', class: `${kind === 'number' ? 'number' : ''} ${isWide(name) ? 'away' : ''}`, 'aria-sort': sorted ? (down ? 'descending' : 'ascending') : null }, to);
  });
  const widths = columns.map(([name]) => make('col', { class: isWide(name) ? 'away' : '', style: isWide(name) ? null : `width: ${columnWidth(name, columnTitle(name), rows)}rem` }));
  if (label) {
    heads.push(make('th', { scope: 'col', class: 'away' }, 'Your label'));
    widths.push(make('col', { class: 'away', style: 'width: 8rem' }));
  }
  const lines = rows.map((row) => {
    const cells = columns.map(([name, kind]) => {
      const content = cellContent(name, row.cells[name] ?? null, kind);
      return make('td', { class: `${kind === 'number' ? 'number' : ''} ${isWide(name) ? 'away long' : ''}` },
        ...(name === 'id' ? [link(href(row), ...content)] : content));
    });
    if (label) cells.push(make('td', { class: 'away' }, label(row)));
    const line = make('tr', {}, ...cells);
    line.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest('select')) return;
      event.preventDefault();
      open(row);
    });
    return line;
  });
  const body = make('tbody', {}, ...lines);
  body.addEventListener('keydown', (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const line = event.target.closest('tr');
    if (event.target.closest('select')) return;
    const to = by && lines[lines.indexOf(line) + by];
    if (!to) return;
    event.preventDefault();
    to.querySelector('a')?.focus();
  });
  return make('div', { class: 'wide' }, make('table', { class: 'rows' }, make('colgroup', {}, ...widths), make('thead', {}, make('tr', {}, ...heads)), body));
}

/** Buttons to the previous and next page, and the text of the shown range. */
function pager({ total, per, page, size }) {
  const previous = make('button', { type: 'button', disabled: page === 0 }, 'Previous page');
  const next = make('button', { type: 'button', disabled: (page + 1) * per >= total }, 'Next page');
  previous.addEventListener('click', () => go({ page: page - 1 || null, row: null }));
  next.addEventListener('click', () => go({ page: page + 1, row: null }));
  const text = size ? `${number(page * per + 1)}–${number(page * per + size)} of ${number(total)}` : 'No matching rows';
  return { text, element: make('div', { class: 'tools' }, previous, next) };
}
