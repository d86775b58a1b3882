// Labelling the queue of a run: one row at a time, by buttons or keys.

class QueuePage {
  constructor() {
    this.name = urlParams().get('run') ?? '';
  }

  async start() {
    document.getElementById('trail').append(make('li', {}, link(urlWith({ run: this.name }, '/run'), said(this.name))));
    document.addEventListener('keydown', (event) => this.onKey(event));
    await this.update();
  }

  async update() {
    this.state = await fetchJson('/api/queue', { run: this.name, row: urlParams().get('row') });
    this.show();
  }

  show() {
    const { state } = this;
    const { row } = state;
    const done = state.labelled + state.skipped;
    const total = done + state.waiting;
    const mine = `${number(state.labelled)} labelled, ${number(state.skipped)} skipped, ${number(state.waiting)} to go`;
    const who = state.annotator ? `as ${visible(state.annotator)}` : 'without a name (start the viewer with --as NAME)';
    const head = [
      make('p', { class: 'lead' }, `Labelling ${who}. ${number(state.annotators)} ${state.annotators === 1 ? 'person labels' : 'people label'} each row.`),
      make('progress', { max: Math.max(1, total), value: done, 'aria-label': 'Rows done' }),
      make('p', { class: 'tools' }, make('span', { class: 'told', role: 'status' }, mine)),
    ];
    if (row === null) {
      showPage('Queue', this.name, ...head, make('p', { class: 'notice done' }, 'No row is waiting for you.'),
        make('p', {}, link(urlWith({ run: this.name }, '/run'), 'Open the run')));
      return;
    }
    const answers = state.answers.filter((answer) => worded(answer).length <= 40).slice(0, 9);
    this.answers = answers;
    this.note = make('textarea', { placeholder: 'Comment (optional)', 'aria-label': 'Comment', maxlength: '20000' });
    this.note.value = row.human.note ?? '';
    this.text = make('input', { class: 'narrow', placeholder: 'Other label', 'aria-label': 'Label', maxlength: '1000' });
    const own = row.human.label;
    if (own !== null && !answers.some((answer) => worded(answer) === worded(own))) this.text.value = worded(own);
    const buttons = answers.map((answer, index) => {
      const button = make('button', { type: 'button', 'aria-pressed': String(own !== null && worded(own) === worded(answer)), 'aria-keyshortcuts': String(index + 1) }, make('kbd', {}, String(index + 1)), ' ', said(answer));
      button.addEventListener('click', () => this.save(answer));
      return button;
    });
    const skip = make('button', { type: 'button', 'aria-keyshortcuts': 's' }, make('kbd', {}, 's'), ' Skip');
    skip.addEventListener('click', () => this.save(null, true));
    const back = make('button', { type: 'button', disabled: !this.previous(), 'aria-keyshortcuts': 'b' }, make('kbd', {}, 'b'), ' Back');
    back.addEventListener('click', () => this.back());
    const form = make('form', { class: 'label kept' }, make('h2', {}, 'Your label'),
      make('div', { class: 'chips' }, ...buttons), make('div', { class: 'tools' }, this.text, make('button', { type: 'submit' }, 'Save'), skip, back), this.note);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const value = parseLabel(this.text.value.trim(), state.answers);
      if (value !== null) this.save(value);
    });
    this.problem = make('p', { class: 'notice', role: 'alert', hidden: true });
    showPage('Queue', this.name, ...head, make('section', { class: 'queued' }, make('h2', {}, 'Row ', said(row.id)), ...fields('', row.source, row.chats)), this.problem, form);
  }

  previous() {
    const { before, row } = this.state;
    const at = row ? before.indexOf(row.position) : -1;
    return before[at + 1] !== undefined ? [before[at + 1]] : null;
  }

  back() {
    const found = this.previous();
    if (found) go({ row: found[0] });
  }

  async save(label, skip = false) {
    if (this.saving) return;
    this.saving = true;
    try {
      await saveLabel({ run: this.name, row: this.state.row.position, id: this.state.row.id, label, note: this.note.value || null, ...(skip ? { skip } : {}) });
      await go({ row: null }, { replace: true });
      window.scrollTo(0, 0);
    } catch (error) {
      this.problem.textContent = error.message;
      this.problem.hidden = false;
    } finally {
      this.saving = false;
    }
  }

  onKey(event) {
    if (!this.state?.row || event.target.closest('input, textarea, select') || event.altKey || event.ctrlKey || event.metaKey) return;
    const answer = /^[1-9]$/.test(event.key) ? this.answers[Number(event.key) - 1] : undefined;
    if (answer !== undefined) this.save(answer);
    else if (event.key === 's') this.save(null, true);
    else if (event.key === 'b') this.back();
    else if (event.key === 'c') { event.preventDefault(); this.note.focus(); }
    else return;
    event.preventDefault();
  }
}
