// Runs compared: the conclusion, the difference in every metric, and of two runs the rows side by side.

const pValue = (value) => (value === null || value === undefined ? '–' : value < 0.001 ? '< 0.001' : String(Number(value.toPrecision(2))));
const difference = (value) => (value === null ? '–' : `${value > 0 ? '+' : ''}${decimal(value)}`);
const tableOf = (className, heads, lines) => make('div', { class: 'wide', tabindex: '0' }, make('table', { class: className },
  make('thead', {}, make('tr', {}, ...heads.map(([text, kind]) => make('th', { scope: 'col', class: kind }, said(text))))), make('tbody', {}, ...lines)));

/** A difference with its interval on a line whose middle is 0 and whose ends are plus and minus `reach`. */
function intervalBar({ difference: value, low, high }, reach) {
  if (value === null || !reach) return '';
  const place = (at) => `${(50 + 50 * Math.max(-1, Math.min(1, at / reach))).toFixed(2)}%`;
  const parts = low === null ? [] : [make('i', { style: `left: ${place(low)}; right: calc(100% - ${place(high)})` })];
  return make('div', { class: 'span zero', role: 'img', 'aria-label': `${difference(value)}${low === null ? '' : ` [${decimal(low)}, ${decimal(high)}]`}` }, ...parts, make('b', { style: `left: ${place(value)}` }));
}

/** The reach of the bars of all metrics that have a common unit, and a function that gives each metric's own. */
function reaches(figures, ownUnits) {
  const ends = (each) => [each.difference, each.low, each.high].filter((value) => value !== null).map(Math.abs);
  const common = Math.max(0, ...figures.filter(([metric]) => !ownUnits.includes(metric)).flatMap(([, each]) => ends(each)));
  return (metric, each) => (ownUnits.includes(metric) ? Math.max(0, ...ends(each)) : common);
}

class ComparePage {
  async start() {
    const params = urlParams();
    this.names = params.has('run') ? params.getAll('run') : [params.get('a') ?? '', params.get('b') ?? ''];
    this.title = this.names.length > 2 ? `${this.names.length} runs` : this.names.join(' → ');
    document.getElementById('trail').append(make('li', {}, link(this.address(this.names), 'Comparison')));
    showPage('Comparison', this.title, make('p', { class: 'note', role: 'status' }, 'Pairing rows …'));
    await this.update();
  }

  address(names) {
    return urlWith({ a: null, b: null, run: null, row: null, page: null, which: null, ...(names.length === 2 ? { a: names[0], b: names[1] } : { run: names }) }, '/compare');
  }

  async comparison() {
    const params = urlParams();
    for (;;) {
      const data = await fetchJson('/api/compare', { run: this.names, evaluation: params.get('evaluation'), which: params.get('which'), page: params.get('page') });
      if (data.ready) return data;
      await sleep(500);
    }
  }

  async update() {
    const data = await this.comparison();
    const two = this.names.length === 2;
    this.letters = Object.keys(data.pipelines);
    this.shown = this.letters.map((letter) => data.pipelines[letter].name);
    const evaluation = makeSelect('Evaluation', data.names.map((name) => [name, name]), data.evaluation);
    evaluation.addEventListener('change', () => go({ evaluation: evaluation.value, page: null, row: null, which: null }));
    const parts = [
      ...(data.conclusion ? [make('p', { class: 'conclusion' }, said(data.conclusion))] : []),
      this.runsTable(data),
      make('div', { class: 'tools' }, ...this.changeRuns(two)),
      make('section', {}, make('div', { class: 'tools' }, make('h2', {}, 'Metrics'), evaluation),
        ...(data.compared.reason ? [make('p', { class: 'notice' }, said(data.compared.reason))]
          : [make('p', { class: 'note' }, `${count(data.compared.n, 'row')}, paired by ${data.paired_by}.`), this.metricsTable(data)])),
    ];
    if (two && !data.compared.reason) parts.push(...this.rowParts(data));
    showFolds(showPage('Comparison', this.title, ...parts));
    const row = urlParams().get('row');
    if (two && row !== null && !this.story?.dialog.open) await this.open(this.rows.find((each) => String(each.id) === row) ?? { id: row, at: [null, null] });
  }

  /** Links that swap the runs or add one. */
  changeRuns(two) {
    const add = makeSelect('Add a run', [['', 'Add a run …']], '');
    const fill = async () => {
      const { runs } = await fetchJson('/api/runs');
      const others = runs.filter((run) => run.status !== 'running' && !this.names.includes(run.run));
      add.append(...others.map((run) => make('option', { value: run.run }, visible(run.run))));
    };
    add.addEventListener('focus', () => fill().catch(() => {}), { once: true });
    add.addEventListener('change', () => { if (add.value) window.location.assign(this.address([...this.names, add.value])); });
    return [...(two ? [link(this.address([this.names[1], this.names[0]]), 'Swap the runs')] : []), add];
  }

  /** The runs, a line each; those of one pipeline have its name. */
  runsTable(data) {
    const lines = this.letters.flatMap((letter, place) => data.pipelines[letter].runs.map((run) => make('tr', {},
      make('th', { scope: 'row' }, breakable(this.shown[place]), place ? '' : ' (reference)'),
      make('td', {}, link(urlWith({ run: run.run }, '/run'), breakable(run.run))),
      ...[run.rows, run.failed].map((value) => make('td', { class: 'number' }, number(value))),
      make('td', { class: 'number' }, money(run.cost_usd)),
      ...(this.names.length > 2 ? [make('td', {}, run.run === this.names[0] ? '' : link(this.address([this.names[0], run.run]), 'Rows side by side'))] : []))));
    return tableOf('', [['Pipeline', ''], ['Run', ''], ['Rows', 'number'], ['Failed', 'number'], ['Cost', 'number'], ...(this.names.length > 2 ? [['', '']] : [])], lines);
  }

  /** The cells of a difference: value, interval, p-values, and the interval as a bar. */
  differenceCells(each, reach) {
    return [
      make('td', { class: 'number gain' }, difference(each.difference)),
      make('td', { class: 'drawn' }, intervalBar(each, reach)),
      make('td', { class: 'number' }, each.low === null ? said(each.reason || '–') : `[${decimal(each.low)}, ${decimal(each.high)}]`),
      make('td', { class: 'number away' }, pValue(each.p)),
      make('td', { class: 'number' }, pValue(each.p_adjusted)),
    ];
  }

  /** The value of each pipeline in a column of its own, and a line for each difference from the reference. */
  metricsTable(data) {
    const [reference, ...others] = this.letters;
    const figures = Object.entries(data.compared.figures);
    const reach = reaches(figures.flatMap(([metric, each]) => Object.values(each.differences).map((one) => [metric, one])), data.own_units);
    const lines = figures.flatMap(([metric, each]) => (others.length ? others : [null]).map((letter, place) => make('tr', {},
      make('th', { scope: 'row' }, place ? '' : breakable(metric)),
      ...this.letters.map((own) => make('td', { class: 'number' }, place ? '' : each.values[own] === undefined || each.values[own] === null ? '–' : decimal(each.values[own]))),
      ...(others.length > 1 ? [make('td', {}, breakable(data.pipelines[letter].name))] : []),
      ...(letter && each.differences[letter] ? this.differenceCells(each.differences[letter], reach(metric, each.differences[letter])) : []))));
    const interval = `${number(100 * data.level)}% interval${others.length > 1 ? ' (together)' : ''}`;
    const heads = [['Metric', ''], ...this.shown.map((name) => [name, 'number']), ...(others.length > 1 ? [['Pipeline', '']] : []),
      ...(others.length ? [[`− ${this.shown[0]}`, 'number'], ['Lower | higher', 'drawn'], [interval, 'number'], ['p', 'number away'], ['p (adj.)', 'number']] : [])];
    return tableOf('compared', heads, lines);
  }

  /** The 2×2 table, whose cells choose the rows, and the rows with the outputs of both runs. */
  rowParts(data) {
    const params = urlParams();
    const chosen = params.get('which') ?? '';
    const cells = data.counts ? { b: `Only ${this.shown[1]} right`, a: `Only ${this.shown[0]} right`, both: 'Both right', neither: 'Both wrong' } : { b: `${this.shown[1]} better`, a: `${this.shown[0]} better` };
    const which = makeSelect('Which rows', [['', 'All differences'], ...Object.entries(cells)], chosen);
    which.addEventListener('change', () => go({ which: which.value, page: null, row: null }));
    const page = Number(params.get('page') ?? 0);
    const pages = pager({ total: data.total, per: data.per, page, size: data.rows.length }, go);
    this.rows = data.rows;
    const title = chosen === 'both' || chosen === 'neither' ? cells[chosen] : 'Rows with different scores';
    return [
      make('section', {}, make('h2', {}, title), ...(data.counts ? [this.cellTable(data, chosen, cells)] : []),
        make('div', { class: 'tools' }, which, make('span', { class: 'told', role: 'status' }, pages.text)), this.rowsOf(data), pages.element),
    ];
  }

  cellTable({ counts, compared }, chosen, cells) {
    const cell = (name) => {
      const button = make('button', { type: 'button', 'aria-pressed': String(chosen === name), 'aria-label': `${cells[name]}: ${number(counts[name])} rows` }, number(counts[name]));
      button.addEventListener('click', () => go({ which: chosen === name ? null : name, page: null, row: null }));
      return make('td', {}, button);
    };
    const { test } = compared;
    const line = (text, ...cells) => make('tr', {}, make('th', { scope: 'row' }, text), ...cells);
    return make('div', {}, tableOf('cells', [['', ''], [`${this.shown[1]} right`, ''], [`${this.shown[1]} wrong`, '']], [line(`${this.shown[0]} right`, cell('both'), cell('a')), line(`${this.shown[0]} wrong`, cell('b'), cell('neither'))]),
      ...(test ? [make('p', { class: 'note' }, `${test.name === 'mcnemar' ? 'McNemar’s exact test' : test.name} of these rows: p ${pValue(test.p)} (Holm-adjusted: ${pValue(test.p_holm)}).`)] : []));
  }

  rowsOf({ rows, counts }) {
    const marked = (row, side) => (counts ? `mark ${(side === 'a' ? row.gain < 0 : row.gain > 0) || urlParams().get('which') === 'both' ? 'right' : 'wrong'}` : '');
    const texts = (cells, ...known) => {
      const named = Object.entries(cells).filter(([, value]) => value !== null && !known.some((one) => one !== null && worded(one) === worded(value)))
        .flatMap(([name, value]) => [make('b', {}, said(name.replace(/^(output|source)\./, ''))), ' ', said(value), ' ']);
      return named.length ? foldedText(...named) : [];
    };
    const lines = rows.map((row) => {
      const side = (name, place) => make('td', { 'data-side': name, 'data-run': this.shown[place] }, make('span', { class: marked(row, name) }, said(row[name])), ...texts(row.outputs[place], row[name]));
      const line = make('tr', {},
        make('td', {}, row.gain > 0 ? `${this.shown[1]} better` : row.gain < 0 ? `${this.shown[0]} better` : 'same'),
        make('td', {}, link(urlWith({ row: String(row.id) }), said(row.id))),
        make('td', {}, said(row.target)), side('a', 0), side('b', 1),
        make('td', { class: 'away' }, ...texts(row.source, row.target)));
      line.addEventListener('click', (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        this.open(row);
      });
      return line;
    });
    const heads = [['Which', ''], ['Row', ''], ['Target', ''], [this.shown[0], ''], [this.shown[1], ''], ['Judged', 'away']];
    return tableOf('rows pairs', heads, lines);
  }

  open(row) {
    this.story ??= new Story(this, { broad: true });
    return this.story.open(row);
  }

  // What the details ask for.

  beside(row, by) {
    const at = this.rows.indexOf(row);
    return at < 0 ? null : this.rows[at + by] ?? null;
  }

  reaches(row, by) {
    return this.beside(row, by) !== null;
  }

  opened({ id }) {
    if (urlParams().get('row') !== String(id)) pageAddress.set({ row: String(id) });
  }

  closed() {
    if (urlParams().has('row')) pageAddress.set({ row: null });
  }

  /** What was judged once, then the outputs and calls of both runs side by side. */
  async load(row) {
    const loaded = await Promise.all(this.names.map((run, place) => {
      const at = row.at[place];
      return fetchJson('/api/row', { run, ...(at === null || at === undefined ? { id: String(row.id) } : { row: at }) }).catch((error) => ({ error: error.message }));
    }));
    const known = loaded.find((each) => each.story);
    const source = known ? fields('', known.story.source, known.story.chats.source) : [];
    const sides = loaded.map((data, place) => {
      const head = make('h3', {}, link(urlWith({ run: this.names[place], row: data.position }, '/run'), said(this.names[place])));
      if (data.error) return make('div', {}, head, make('p', { class: 'notice' }, said(data.error)));
      return make('div', {}, head, factList(data.facts), ...told({ ...data.story, source: {}, chats: { ...data.story.chats, source: {} } }));
    });
    return [...(source.length ? [make('details', { open: true }, make('summary', {}, 'Source'), ...source)] : []), make('div', { class: 'stories' }, ...sides)];
  }
}
