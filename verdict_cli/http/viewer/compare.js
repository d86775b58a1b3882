// Two runs side by side: the difference in every metric, and the rows with different scores.

class ComparePage {
  async start() {
    const params = urlParams();
    this.names = { a: params.get('a') ?? '', b: params.get('b') ?? '' };
    document.getElementById('trail').append(make('li', {}, link(urlWith({ ...this.names }, '/compare'), 'Comparison')));
    showPage('Comparison', `${this.names.a} → ${this.names.b}`, make('p', { class: 'note', role: 'status' }, 'Pairing rows …'));
    await this.update();
  }

  async load() {
    const params = urlParams();
    for (;;) {
      const data = await fetchJson('/api/compare', { ...this.names, evaluation: params.get('evaluation'), which: params.get('which'), page: params.get('page') });
      if (data.ready) return data;
      await sleep(500);
    }
  }

  async update() {
    const data = await this.load();
    const params = urlParams();
    const { compared } = data;
    const evaluation = makeSelect('Evaluation', data.names.map((name) => [name, name]), data.evaluation);
    evaluation.addEventListener('change', () => go({ evaluation: evaluation.value, page: null, row: null }));
    const which = makeSelect('Which rows', [['', 'All differences'], ['b', 'b better'], ['a', 'a better']], params.get('which'));
    which.addEventListener('change', () => go({ which: which.value, page: null, row: null }));
    const swap = link(urlWith({ a: this.names.b, b: this.names.a }, '/compare'), 'Swap a and b');
    const rows = data.flipped.map((flip) => ({ flip, cells: { which: flip.gain > 0 ? 'b better' : 'a better', id: flip.id, a: flip.a, b: flip.b, target: flip.target, gain: flip.gain } }));
    const columns = [['which', 'text'], ['id', 'text'], ['a', 'text'], ['b', 'text'], ['target', 'text'], ['gain', 'number']];
    const page = Number(params.get('page') ?? 0);
    const pages = pager({ total: data.total, per: data.per, page, size: rows.length });
    this.rows = rows;
    showPage('Comparison', `${this.names.a} → ${this.names.b}`,
      make('dl', { class: 'facts' }, ...['a', 'b'].flatMap((side) => [
        fact(side, link(urlWith({ run: data[side].run }, '/run'), said(data[side].run))),
        fact(`${side}: rows, failed, cost`, `${number(data[side].rows)}, ${number(data[side].failed)}, ${money(data[side].cost_usd)}`),
      ])),
      make('p', {}, `Rows are paired by their ${data.paired_by}; differences are b minus a. `, swap),
      make('section', {}, make('div', { class: 'tools' }, make('h2', {}, 'Metrics'), evaluation), this.metricsTable(compared)),
      make('section', {}, make('h2', {}, 'Rows with different scores'),
        make('div', { class: 'tools' }, which, make('span', { class: 'told', role: 'status' }, pages.text)),
        rowsTable({ columns, rows, sort: null, down: false, href: (row) => urlWith({ row: String(row.flip.id) }), open: (row) => this.open(row) }), pages.element));
    for (const head of document.querySelectorAll('table.rows th a')) head.replaceWith(...head.childNodes);
    if (params.has('row') && !this.dialog?.open) {
      const known = rows.find((row) => String(row.flip.id) === params.get('row'));
      await this.open(known ?? { flip: { id: params.get('row') } });
    }
  }

  metricsTable(compared) {
    if (compared.reason) return make('p', { class: 'notice' }, said(compared.reason));
    const lines = Object.entries(compared.figures).map(([metric, each]) => make('tr', {},
      make('th', { scope: 'row' }, said(metric)),
      ...[each.a, each.b].map((value) => make('td', { class: 'number' }, value === null ? '–' : number(value))),
      make('td', { class: 'number gain' }, each.difference === null ? '–' : number(each.difference)),
      make('td', { class: 'number' }, each.low === null ? said(each.reason || '–') : `[${number(each.low)}, ${number(each.high)}]`)));
    const heads = ['Metric', 'a', 'b', 'b − a', '95% interval'];
    return make('div', { class: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, ...heads.map((text, index) => make('th', { scope: 'col', class: index ? 'number' : '' }, text)))), make('tbody', {}, ...lines)));
  }

  /** Show the details of a row in both runs side by side. */
  async open(row) {
    const id = String(row.flip.id);
    if (urlParams().get('row') !== id) window.history.pushState(null, '', urlWith({ row: id }));
    const close = make('button', { type: 'button' }, 'Close');
    const body = make('div', { class: 'story-body' });
    this.dialog = make('dialog', { class: 'broad-dialog', 'aria-labelledby': 'pair-title' },
      make('div', { class: 'story-head' }, make('h2', { id: 'pair-title', tabindex: '-1' }, 'Row ', said(id)), close), body);
    document.body.append(this.dialog);
    close.addEventListener('click', () => this.dialog.close());
    this.dialog.addEventListener('click', (event) => { if (event.target === this.dialog) this.dialog.close(); });
    this.dialog.addEventListener('close', () => {
      this.dialog.remove();
      if (urlParams().has('row')) window.history.pushState(null, '', urlWith({ row: null }));
    });
    this.dialog.showModal();
    const sides = await Promise.all(['a', 'b'].map(async (side) => {
      try {
        const data = await fetchJson('/api/row', { run: this.names[side], id });
        return make('div', {}, make('h3', {}, `${side}: `, link(urlWith({ run: this.names[side], row: data.position }, '/run'), said(this.names[side]))),
          make('dl', { class: 'facts' }, ...Object.entries(data.facts).filter(([, value]) => value !== null).map(([name, value]) => fact(visible(columnTitle(name)), shown(value, name === 'outcome' ? 'outcome' : '')))), ...told(data.story));
      } catch (error) {
        return make('div', {}, make('h3', {}, side), make('p', { class: 'notice' }, said(error.message)));
      }
    }));
    body.append(make('div', { class: 'stories' }, ...sides));
  }
}
