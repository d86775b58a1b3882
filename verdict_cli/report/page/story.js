// The details of a row, in a dialog.

let plainText = false;

const fact = (name, value) => make('div', {}, make('dt', {}, name), make('dd', {}, value));

/** Facts of a row: titles, values and their kinds. */
const factList = (facts) => make('dl', { class: 'facts' }, ...facts.map(([title, value, kind]) => fact(visible(title), shown(value, kind))));

/** Shares as bars: pairs of a name and a number from 0 to 1. */
function bars(shares) {
  const cells = shares.flatMap(([name, share]) => [
    make('span', {}, said(name)),
    make('i', { style: `width: ${Math.max(0, Math.min(1, share)) * 100}%` }),
    make('span', {}, decimal(share)),
  ]);
  return make('div', { class: 'bars' }, ...cells);
}

const isShares = (value) => value && typeof value === 'object' && !Array.isArray(value)
  && Object.keys(value).length > 0
  && Object.values(value).every((share) => typeof share === 'number' && share >= 0 && share <= 1);

const isShort = (value) => !isShares(value) && worded(value).length <= 60 && !worded(value).includes('\n');

const FOLDED_CHARACTERS = 700;
const FOLDED_LINES = 12;
const LONG_CHARACTERS = 50_000;
const FEW_CALLS = 3;
const ROLES = ['user', 'assistant', 'system', 'developer', 'tool'];

/** A text of the data: its Markdown drawn, unless the reader wants it as it is. */
function textBlock(value, attributes = {}) {
  const text = worded(value);
  if (typeof value === 'string' && !plainText && looksLikeMarkdown(text)) return make('div', { ...attributes, class: `markdown ${attributes.class ?? ''}`, tabindex: '0', dir: 'auto' }, ...markdown(text));
  return plainBlock(text, attributes);
}

/** A text as it is; a very long one folded, because its layout takes seconds. */
function plainBlock(text, attributes = {}) {
  const block = make('pre', { ...attributes, tabindex: '0', dir: 'auto' }, visible(text));
  return text.length > LONG_CHARACTERS ? folded(text, block) : block;
}

/** An element under the beginning of its text. */
function folded(text, element) {
  const start = text.slice(0, 160).replace(/\s+/g, ' ');
  return make('details', {}, make('summary', {}, said(`${start}…`), ` (${number(text.length)} characters)`), element);
}

/** A turn's text; a long one folded. */
function turnText(text) {
  const whole = () => (plainText || !looksLikeMarkdown(text) ? make('p', { class: 'turn-text', dir: 'auto' }, visible(text)) : make('div', { class: 'turn-text markdown', dir: 'auto' }, ...markdown(text)));
  if (text.length <= FOLDED_CHARACTERS && text.split('\n').length <= FOLDED_LINES) return whole();
  return folded(text, whole());
}

/** A conversation: its turns with their numbers, tool calls, and notes in place of images. */
function chat({ turns, left }) {
  const items = turns.map((turn) => make('li', { class: `turn ${ROLES.includes(turn.role) ? turn.role : 'other'}` },
    make('div', { class: 'turn-head' }, make('b', {}, said(turn.name ? `${turn.role} ${turn.name}` : turn.role)), ` [${number(turn.number)}]`),
    ...(turn.text ? [turnText(turn.text)] : []),
    ...turn.images.map((note) => make('p', { class: 'turn-image' }, 'image: ', said(note))),
    ...turn.calls.map(([name, given]) => make('div', { class: 'turn-call' }, 'called ', make('code', {}, said(name)), turnText(given)))));
  return make('div', { class: 'chat', tabindex: '0' }, make('ol', {}, ...items), ...(left ? [make('p', { class: 'note' }, `${number(left)} more turns`)] : []));
}

/** Named values: short ones side by side, long texts in blocks, shares as bars, conversations as chats. */
function fields(title, values, chats = {}) {
  const entries = Object.entries(values);
  if (!entries.length && !Object.keys(chats).length) return [];
  const brief = entries.filter(([, value]) => isShort(value));
  const list = make('dl', { class: 'facts' }, ...brief.map(([name, value]) => fact(said(name), said(value))));
  const blocks = entries.filter(([, value]) => !isShort(value)).flatMap(([name, value]) => [
    make('h4', {}, said(name)),
    isShares(value) ? bars(Object.entries(value)) : textBlock(value),
  ]);
  const talks = Object.entries(chats).flatMap(([name, talk]) => [make('h4', {}, said(name)), chat(talk)]);
  return [...(title ? [make('h3', {}, title)] : []), ...(brief.length ? [list] : []), ...blocks, ...talks];
}

/** The entries of a list with what was said of each, a table for each list. */
function entryTables(tables) {
  return tables.flatMap(({ columns, rows }) => [
    make('h3', {}, `Entries (${rows.length})`),
    make('div', { class: 'entries', tabindex: '0' }, make('table', {},
      make('thead', {}, make('tr', {}, ...columns.map((name) => make('th', { scope: 'col' }, said(name))))),
      make('tbody', {}, ...rows.map((cells) => make('tr', {}, ...cells.map((cell) => make('td', {}, cell === null ? '' : said(cell)))))))),
  ]);
}

function callFacts(call) {
  const facts = [call.model, call.attempt ? `attempt ${call.attempt + 1}` : null];
  if (call.tokens) facts.push(`${number(call.tokens[0])} + ${number(call.tokens[1])} tokens`);
  facts.push(call.cost === null ? 'cost unknown' : call.cost ? money(call.cost) : null);
  if (call.seconds) facts.push(`${number(call.seconds)} s`);
  if (call.finish && call.finish !== 'stop') facts.push(`ended by ${call.finish}`);
  return [...facts, ...call.flags].filter(Boolean).map((fact) => make('span', {}, said(fact)));
}

function callCard(call) {
  const card = make('article', { class: 'call' }, make('header', {}, make('strong', {}, said(call.unit)), ...callFacts(call)));
  if (call.failure) card.append(make('p', { class: 'notice' }, said(`${call.failure}: ${call.error || ''}`)));
  if (call.reply !== null) {
    card.append(make('h4', {}, 'reply'), textBlock(call.reply, { class: 'reply' }));
  }
  for (const [token, shares] of call.probabilities) {
    card.append(make('h4', {}, 'probabilities at ', said(token)), bars(shares));
  }
  const prompt = make('details', { open: call.open }, make('summary', {}, 'prompt'));
  for (const { role, content, images } of call.messages) {
    prompt.append(make('h4', {}, said(role)), plainBlock(worded(content)), ...images.map((note) => make('p', { class: 'turn-image' }, 'image: ', said(note))));
  }
  card.append(prompt);
  return card;
}

/** The details as elements: why it was judged so, what was sent and answered, what was judged, entries, and every other output. */
function told(story) {
  const reasons = Object.entries(story.outputs).filter(([name, value]) => name.endsWith('.explanation') && value !== null);
  const others = Object.fromEntries(Object.entries(story.outputs).filter(([name]) => !reasons.some(([reason]) => reason === name)));
  const parts = [];
  if (story.failure) parts.push(make('p', { class: 'notice' }, said(story.failure)));
  for (const [name, value] of reasons) parts.push(make('h3', {}, 'Explanation', ...(reasons.length > 1 ? [': ', said(name.replace(/\.explanation$/, ''))] : [])), !plainText && looksLikeMarkdown(worded(value)) ? textBlock(value, { class: 'reason' }) : make('p', { class: 'reason', dir: 'auto' }, visible(worded(value))));
  const source = make('div', { class: 'source' }, ...fields('Source', story.source, story.chats.source));
  const calls = story.calls.length ? [make('h3', {}, `Calls (${story.calls.length})`), ...story.calls.map(callCard)] : [];
  // A prompt repeats what it needs of the source, so a few calls are read first; many would bury it.
  const few = story.calls.length <= FEW_CALLS;
  parts.push(...(few ? [...calls, source] : [source]), ...entryTables(story.entries), ...(few ? [] : calls));
  parts.push(...fields('Outputs', others, story.chats.outputs));
  if (story.cut) parts.push(make('p', { class: 'note' }, visible(story.cut)));
  return parts;
}

/** The button that shows Markdown as plain text, and back. */
function plainSwitch(redraw) {
  const button = make('button', { type: 'button', 'aria-pressed': String(plainText), class: 'jump' }, 'Plain text');
  button.addEventListener('click', () => {
    plainText = !plainText;
    button.setAttribute('aria-pressed', String(plainText));
    redraw();
  });
  return button;
}

/**
 * The dialog with a row. Its owner has load(row): the details as elements; reaches(row, by) and beside(row, by): whether there is
 * a row so many rows on, and that row; opened(row) and closed(row); optionally hasWrong() and wrong(row, back), the next wrong row.
 */
class Story {
  constructor(owner, { broad = false } = {}) {
    this.owner = owner;
    this.title = make('h2', { id: 'story-title', tabindex: '-1' });
    this.body = make('div', { class: 'story-body' });
    const button = (text, name, action, attributes = {}) => {
      const made = make('button', { type: 'button', 'aria-label': name, ...attributes }, text);
      made.addEventListener('click', action);
      return made;
    };
    const jump = (text, name, key, back) => button(text, name, () => this.jump(back), { class: 'jump', 'aria-keyshortcuts': key, title: `${name} (${key})` });
    this.jumps = owner.wrong ? [jump('« wrong', 'Previous wrong row', 'p', true), jump('wrong »', 'Next wrong row', 'n', false)] : [];
    this.before = button('←', 'Previous row', () => this.go(-1));
    this.after = button('→', 'Next row', () => this.go(1));
    const close = button('Close', null, () => this.dialog.close());
    this.dialog = make('dialog', { class: broad ? 'broad-dialog' : null, 'aria-labelledby': 'story-title' },
      make('div', { class: 'story-head' }, this.title, plainSwitch(() => this.open(this.row)), ...this.jumps, this.before, this.after, close), this.body);
    document.body.append(this.dialog);
    this.dialog.addEventListener('click', (event) => { if (event.target === this.dialog) this.dialog.close(); });
    this.dialog.addEventListener('keydown', (event) => {
      if (event.target.closest('pre') || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === 'ArrowLeft') this.go(-1);
      if (event.key === 'ArrowRight') this.go(1);
      if (event.key === 'n' || event.key === 'p') this.jump(event.key === 'p');
    });
    this.dialog.addEventListener('close', () => owner.closed(this.row));
  }

  async go(by) {
    const row = await this.owner.beside(this.row, by);
    if (row) this.open(row);
  }

  /** Whether there are wrong rows to go to may be known only after a row is shown. */
  showJumps() {
    for (const jump of this.jumps) jump.hidden = !this.owner.hasWrong();
  }

  async jump(back) {
    const row = await this.owner.wrong?.(this.row, back);
    if (row) this.open(row);
  }

  async open(row) {
    this.row = row;
    this.owner.opened(row);
    this.title.replaceChildren('Row ', said(row.id));
    this.showJumps();
    this.before.disabled = !this.owner.reaches(row, -1);
    this.after.disabled = !this.owner.reaches(row, 1);
    this.body.replaceChildren();
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.scrollTop = 0;
    this.title.focus();
    const details = await this.owner.load(row);
    if (this.row === row) this.body.replaceChildren(...details);
  }
}
