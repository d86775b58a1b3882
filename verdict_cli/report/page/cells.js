// The content of a cell of a table of rows.

const OUTCOMES = { wrong: '✗ wrong', failed: '! failed', right: '✓ right', none: '–' };
const ORDER = ['failed', 'wrong', 'none', 'right'];

/** A cell's content. */
function shown(value, kind) {
  if (kind === 'outcome') return make('span', { class: `mark ${value}` }, OUTCOMES[value] ?? '–');
  if (kind === 'money') return money(value);
  return said(typeof value === 'string' ? value.replace(/\s+/g, ' ') : value);
}

/** A text folded to three lines, and the button that unfolds it (see `showFolds`). */
function foldedText(...content) {
  const text = make('div', { class: 'clip', dir: 'auto' }, ...content);
  const more = make('button', { type: 'button', class: 'unfold', 'aria-expanded': 'false', hidden: true }, 'more');
  more.addEventListener('click', (event) => {
    event.stopPropagation();
    const open = text.classList.toggle('open');
    more.setAttribute('aria-expanded', String(open));
    more.textContent = open ? 'less' : 'more';
  });
  return [text, more];
}

/** Show the buttons of the texts that are folded, once they are laid out. */
function showFolds(place) {
  const folded = [...place.querySelectorAll('.clip')].map((text) => [text.nextElementSibling, text.scrollHeight > text.clientHeight + 1]);
  for (const [more, isFolded] of folded) if (more) more.hidden = !isFolded;
}

const KEYS = [['/', 'search the rows'], ['↑ ↓', 'move between rows'], ['Enter', 'open a row'], ['← →', 'previous and next row, in an open row'],
  ['n p', 'next and previous wrong row, in an open row'], ['Esc', 'close'], ['?', 'this help']];

/** Show the list of keys until it is closed. */
function showHelp() {
  const close = make('button', { type: 'button' }, 'Close');
  const help = make('dialog', { class: 'help', 'aria-labelledby': 'help-title' }, make('h2', { id: 'help-title' }, 'Keys'),
    make('dl', {}, ...KEYS.map(([key, what]) => make('div', {}, make('dt', {}, make('kbd', {}, key)), make('dd', {}, what)))), close);
  close.addEventListener('click', () => help.close());
  help.addEventListener('close', () => help.remove());
  document.body.append(help);
  help.showModal();
}

/** Keys of the whole page: `/` goes to the search field, `?` opens the list of keys. */
function startKeys(search) {
  document.addEventListener('keydown', (event) => {
    if (event.target.closest('input, select, textarea') || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '?' && !document.querySelector('dialog.help')) showHelp();
    else if (event.key === '/' && !event.target.closest('dialog')) search.focus();
    else return;
    event.preventDefault();
  });
}
