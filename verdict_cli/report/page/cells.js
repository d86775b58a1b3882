// The content of a cell of a table of rows.

const OUTCOMES = { wrong: '✗ wrong', failed: '! failed', right: '✓ right', none: '–' };
const ORDER = ['failed', 'wrong', 'none', 'right'];

/** A cell's content. */
function shown(value, kind) {
  if (kind === 'outcome') return make('span', { class: `mark ${value}` }, OUTCOMES[value] ?? '–');
  return said(typeof value === 'string' ? value.replace(/\s+/g, ' ') : value);
}
