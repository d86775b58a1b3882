// Two runs side by side: what changed in every figure, and the rows that are scored differently.

class ComparePage {
  async start() {
    const now = asked();
    this.names = { a: now.get('a') ?? '', b: now.get('b') ?? '' };
    document.getElementById('trail').append(make('li', {}, link(addressed({ ...this.names }, '/compare'), 'Comparison')));
    headed('Comparison', `${this.names.a} → ${this.names.b}`, make('p', { class: 'note', role: 'status' }, 'The rows are being paired …'));
    await this.update();
  }

  async asked() {
    const now = asked();
    for (;;) {
      const found = await fetched('/api/compare', { ...this.names, evaluation: now.get('evaluation'), which: now.get('which'), page: now.get('page') });
      if (found.ready) return found;
      await waited(500);
    }
  }

  async update() {
    const found = await this.asked();
    const now = asked();
    const { compared } = found;
    const evaluation = choice('Evaluation', found.names.map((name) => [name, name]), found.evaluation);
    evaluation.addEventListener('change', () => go({ evaluation: evaluation.value, page: null, row: null }));
    const which = choice('Which rows', [['', 'All that differ'], ['b', 'b better'], ['a', 'a better']], now.get('which'));
    which.addEventListener('change', () => go({ which: which.value, page: null, row: null }));
    const swap = link(addressed({ a: this.names.b, b: this.names.a }, '/compare'), 'Swap a and b');
    const rows = found.flipped.map((flip) => ({ flip, cells: { which: flip.gain > 0 ? 'b better' : 'a better', id: flip.id, a: flip.a, b: flip.b, target: flip.target, gain: flip.gain } }));
    const columns = [['which', 'text'], ['id', 'text'], ['a', 'text'], ['b', 'text'], ['target', 'text'], ['gain', 'number']];
    const page = Number(now.get('page') ?? 0);
    const pages = pager({ total: found.total, per: found.per, page, size: rows.length });
    this.rows = rows;
    headed('Comparison', `${this.names.a} → ${this.names.b}`,
      make('dl', { class: 'facts' }, ...['a', 'b'].flatMap((side) => [
        fact(side, link(addressed({ run: found[side].run }, '/run'), said(found[side].run))),
        fact(`${side}: rows, failed, cost`, `${number(found[side].rows)}, ${number(found[side].failed)}, ${money(found[side].cost_usd)}`),
      ])),
      make('p', {}, `Rows are paired by their ${found.paired_by}; differences are b minus a. `, swap),
      make('section', {}, make('div', { class: 'tools' }, make('h2', {}, 'Figures'), evaluation), this.figures(compared)),
      make('section', {}, make('h2', {}, 'Rows that are scored differently'),
        make('div', { class: 'tools' }, which, make('span', { class: 'told', role: 'status' }, pages.text)),
        rowsTable({ columns, rows, sort: null, down: false, href: (row) => addressed({ row: String(row.flip.id) }), open: (row) => this.open(row) }), pages.element));
    for (const head of document.querySelectorAll('table.rows th a')) head.replaceWith(...head.childNodes);
    if (now.has('row') && !this.dialog?.open) {
      const known = rows.find((row) => String(row.flip.id) === now.get('row'));
      await this.open(known ?? { flip: { id: now.get('row') } });
    }
  }

  figures(compared) {
    if (compared.reason) return make('p', { class: 'notice' }, said(compared.reason));
    const lines = Object.entries(compared.figures).map(([metric, each]) => make('tr', {},
      make('th', { scope: 'row' }, said(metric)),
      ...[each.a, each.b].map((value) => make('td', { class: 'number' }, value === null ? '–' : number(value))),
      make('td', { class: 'number gain' }, each.difference === null ? '–' : number(each.difference)),
      make('td', { class: 'number' }, each.low === null ? said(each.reason || '–') : `[${number(each.low)}, ${number(each.high)}]`)));
    const heads = ['', 'a', 'b', 'b − a', '95% interval'];
    return make('div', { class: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, ...heads.map((text, place) => make('th', { scope: 'col', class: place ? 'number' : '' }, text)))), make('tbody', {}, ...lines)));
  }

  /** Both stories of a row beside each other. */
  async open(row) {
    const id = String(row.flip.id);
    if (asked().get('row') !== id) window.history.pushState(null, '', addressed({ row: id }));
    const close = make('button', { type: 'button' }, 'Close');
    const body = make('div', { class: 'story-body' });
    this.dialog = make('dialog', { class: 'broad-dialog', 'aria-labelledby': 'pair-title' },
      make('div', { class: 'story-head' }, make('h2', { id: 'pair-title', tabindex: '-1' }, 'Row ', said(id)), close), body);
    document.body.append(this.dialog);
    close.addEventListener('click', () => this.dialog.close());
    this.dialog.addEventListener('click', (event) => { if (event.target === this.dialog) this.dialog.close(); });
    this.dialog.addEventListener('close', () => {
      this.dialog.remove();
      if (asked().has('row')) window.history.pushState(null, '', addressed({ row: null }));
    });
    this.dialog.showModal();
    const sides = await Promise.all(['a', 'b'].map(async (side) => {
      try {
        const found = await fetched('/api/row', { run: this.names[side], id });
        const parts = side === 'b' ? found.story : { ...found.story };
        return make('div', {}, make('h3', {}, `${side}: `, link(addressed({ run: this.names[side], row: found.place }, '/run'), said(this.names[side]))),
          make('dl', { class: 'facts' }, ...Object.entries(found.facts).filter(([, value]) => value !== null).map(([name, value]) => fact(visible(titled(name)), shown(value, name === 'outcome' ? 'outcome' : '')))), ...told(parts));
      } catch (problem) {
        return make('div', {}, make('h3', {}, side), make('p', { class: 'notice' }, said(problem.message)));
      }
    }));
    body.append(make('div', { class: 'stories' }, ...sides));
  }
}
