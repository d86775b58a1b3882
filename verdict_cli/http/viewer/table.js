// A table of rows: a page of them, as the server found it.

const titled = (name) => ({ id: 'Row', outcome: 'Outcome', prediction: 'Prediction', target: 'Target', score: 'Score', 'failure.kind': 'Failure', 'human.label': 'Label', 'human.note': 'Note', which: 'Which', gain: 'Gain', calls: 'Calls', cost_usd: 'Cost', status: 'Status' }[name] ?? name.replace(/^source\./, ''));

const isWide = (name) => name.startsWith('source.') || name === 'human.note';

/** Room for a column's title and most of its values, in rem. */
function roomFor(name, title, rows) {
  if (name === 'outcome') return 6.2;
  const longest = Math.max(title.length, ...rows.map((row) => worded(row.cells[name]).length));
  return Math.min(Math.max(4.5, 2 + longest * 0.53), 11);
}

/** `open(row)` is called for a row that is chosen. */
function rowsTable({ columns, rows, sort, down, href, open }) {
  const heads = columns.map(([name, kind]) => {
    const sorted = sort === name;
    const to = link(addressed({ sort: name, down: sorted && !down ? '1' : null, page: null, row: null }), visible(titled(name)));
    to.addEventListener('click', (event) => { event.preventDefault(); go({ sort: name, down: sorted && !down ? '1' : null, page: null, row: null }); });
    return make('th', { scope: 'col', class: `${kind === 'number' ? 'number' : ''} ${isWide(name) ? 'away' : ''}`, 'aria-sort': sorted ? (down ? 'descending' : 'ascending') : null }, to);
  });
  const widths = columns.map(([name]) => make('col', { class: isWide(name) ? 'away' : '', style: isWide(name) ? null : `width: ${roomFor(name, titled(name), rows)}rem` }));
  const lines = rows.map((row) => {
    const cells = columns.map(([name, kind]) => {
      const content = shown(row.cells[name] ?? null, kind);
      return make('td', { class: `${kind === 'number' ? 'number' : ''} ${isWide(name) ? 'away' : ''}` },
        name === 'id' ? link(href(row), content) : content);
    });
    const line = make('tr', {}, ...cells);
    line.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open(row);
    });
    return line;
  });
  const body = make('tbody', {}, ...lines);
  body.addEventListener('keydown', (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const line = event.target.closest('tr');
    const to = by && lines[lines.indexOf(line) + by];
    if (!to) return;
    event.preventDefault();
    to.querySelector('a')?.focus();
  });
  return make('div', { class: 'wide' }, make('table', { class: 'rows' }, make('colgroup', {}, ...widths), make('thead', {}, make('tr', {}, ...heads)), body));
}

/** Buttons to the pages beside this one, and what is shown. */
function pager({ total, per, page, size }) {
  const earlier = make('button', { type: 'button', disabled: page === 0 }, 'Previous page');
  const later = make('button', { type: 'button', disabled: (page + 1) * per >= total }, 'Next page');
  earlier.addEventListener('click', () => go({ page: page - 1 || null, row: null }));
  later.addEventListener('click', () => go({ page: page + 1, row: null }));
  const text = size ? `${number(page * per + 1)}–${number(page * per + size)} of ${number(total)}` : 'No row matches';
  return { text, element: make('div', { class: 'tools' }, earlier, later) };
}
