// The top of a run's page: its conclusion, cards, gates, confusion matrix, slices and human labels.

/** A filter of rows for a value of a column. */
const filterFor = (column, value) => (value === null ? [column, 'none'] : [column, 'is', typeof value === 'string' ? value.slice(0, 300) : JSON.stringify(value)]);

const levelText = (level) => `${Number((100 * level).toPrecision(6))}% interval`;

/** A link that sets these filters in place of those of the same columns (and of `also`), and goes to the rows; where they are set, it removes them. */
function filterLink(page, filters, also, ...content) {
  const columns = [...filters.map(([column]) => column), ...also];
  const set = page.browser.filters().filter(([column]) => columns.includes(column));
  const others = page.browser.filters().filter(([column]) => !columns.includes(column));
  const chosen = set.length === filters.length && filters.every((filter) => set.some((each) => JSON.stringify(each) === JSON.stringify(filter)));
  const next = chosen ? others : [...others, ...filters];
  const to = link(urlWith({ f: next.map((filter) => JSON.stringify(filter)), page: null, row: null }), ...content);
  if (chosen) to.setAttribute('aria-current', 'true');
  to.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    page.browser.setFilters(next);
    if (!chosen) document.getElementById('rows').scrollIntoView();
  });
  return to;
}

/** An interval within 0 and 1 as a bar; nothing for others. */
function span({ value, low, high }) {
  if (value === null || low === null || low < 0 || high > 1) return make('span', {});
  const percent = (share) => `${(100 * share).toFixed(2)}%`;
  return make('div', { class: 'span', 'aria-hidden': 'true' }, make('i', { style: `left: ${percent(low)}; right: ${percent(1 - high)}` }), make('b', { style: `left: ${percent(value)}` }));
}

function card(title, value, ...rest) {
  return make('div', { class: 'tile' }, make('h3', {}, said(title)), make('p', { class: 'value' }, value), ...rest);
}

function metricCard(metric, level) {
  const interval = metric.low === null ? 'no interval' : formatInterval(metric);
  return card(metric.metric.replaceAll('_', ' '), decimal(metric.value), span(metric), make('p', { class: 'interval' }, interval), make('p', { class: 'small' }, `${levelText(level)}, n=${number(metric.n)}`));
}

/** The four cards: the main metric, one corrected for chance, coverage and cost. */
function cards(run) {
  const { main, second, coverage, level } = run.summary;
  return make('div', { class: 'tiles' }, ...(main ? [metricCard(main, level)] : []), ...(second ? [metricCard(second, level)] : []),
    ...(coverage === null ? [] : [card('coverage', decimal(coverage), make('p', { class: 'small' }, `${count(run.rows, 'row')}, ${number(run.failed)} failed${run.abstained ? `, ${number(run.abstained)} abstained` : ''}`))]),
    card('cost', money(run.cost_usd), make('p', { class: 'small' }, `${count(run.calls, 'call')}, ${duration(run.wall_s)}`)));
}

function simpleTable(heads, lines) {
  return make('div', { class: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, ...heads.map(([text, kind]) => make('th', { scope: 'col', class: kind ?? '' }, text)))), make('tbody', {}, ...lines)));
}

function gatesTable(gates) {
  const marks = { passed: ['right', '✓ passed'], failed: ['wrong', '✗ failed'], inconclusive: ['wrong', '? inconclusive'] };
  return make('section', { class: 'gates' }, make('h2', {}, 'Gates'), simpleTable([['Metric'], ['Outcome'], ['Value', 'number'], ['Interval', 'number away'], ['Limit'], ['Why', 'away']], gates.map((gate) => {
    const [kind, text] = marks[gate.verdict] ?? ['none', gate.verdict];
    return make('tr', {}, make('th', { scope: 'row' }, breakable(gate.metric)), make('td', {}, make('span', { class: `mark ${kind}` }, said(text))),
      make('td', { class: 'number' }, gate.value === null ? '–' : decimal(gate.value)),
      make('td', { class: 'number away' }, gate.low === null ? '–' : formatInterval(gate)),
      make('td', {}, said(gate.rule)), make('td', { class: 'away' }, said(gate.reason || '–')));
  })));
}

/** Rows by target and prediction, in the order of the scale; every cell filters the rows below. */
function matrixTable(page, { labels, counts }) {
  const short = (label) => (typeof label === 'string' ? label.slice(0, 40) : label);
  const name = (label) => (label === null ? '(none)' : said(short(label)));
  const head = make('tr', {}, make('th', { scope: 'col' }, 'target ↓ prediction →'), ...labels.map((label) => make('th', { scope: 'col', class: 'number' }, filterLink(page, [filterFor('prediction', label)], ['target'], name(label)))));
  const lines = counts.flatMap((row, at) => {
    const total = row.reduce((sum, each) => sum + each, 0);
    if (!total && labels[at] === null) return [];
    return [make('tr', {}, make('th', { scope: 'row' }, filterLink(page, [filterFor('target', labels[at])], ['prediction'], name(labels[at]))), ...row.map((each, to) => make('td', {
      'data-heat': at === to ? 'right' : 'wrong', style: `--heat: ${total ? (each / total).toFixed(3) : 0}`,
    }, each ? filterLink(page, [filterFor('target', labels[at]), filterFor('prediction', labels[to])], ['outcome'], number(each)) : '0')))];
  });
  const shown = labels.map((label) => (label === null ? '(none)' : visible(short(label))));
  const picture = { type: 'matrix', labels: shown, counts, height: 76 + Math.min(52, 420 / labels.length) * labels.length };
  return make('div', {}, make('h2', {}, 'Confusion matrix'), make('p', { class: 'note' }, 'A cell shows its rows below.'),
    chartFigure('Confusion matrix', picture),
    make('div', { class: 'wide' }, make('table', { class: 'matrix' }, make('thead', {}, head), make('tbody', {}, ...lines))));
}

const FIRST_SLICES = 8;

/** The main metric for each value of an expression, the worst first. */
function sliceTable(page, { by, rows }, metric) {
  const column = by in page.browser.titles ? by : null;
  const title = page.browser.title(by);
  const line = (row) => make('tr', {}, make('th', { scope: 'row' }, column ? filterLink(page, [row.slice === 'null' ? [column, 'none'] : [column, 'is', row.slice]], [], said(row.slice)) : said(row.slice)),
    make('td', { class: 'number' }, row.value === null ? '–' : decimal(row.value)), make('td', { class: 'bar away' }, span(row)),
    make('td', { class: 'number away' }, row.low === null ? '–' : formatInterval(row)), make('td', { class: 'number' }, number(row.n)));
  const heads = [[title], [metric.replaceAll('_', ' '), 'number'], ['', 'bar away'], ['Interval', 'number away'], ['n', 'number']];
  const rest = rows.slice(FIRST_SLICES);
  return make('div', { class: 'slices' }, make('h2', {}, 'By ', said(title)), make('p', { class: 'note' }, column ? 'The worst first; a value shows its rows below.' : 'The worst first.'),
    simpleTable(heads, rows.slice(0, FIRST_SLICES).map(line)),
    ...(rest.length ? [make('details', {}, make('summary', {}, `${number(rest.length)} more`), simpleTable(heads, rest.map(line)))] : []));
}

/** All metrics of an evaluation, folded. */
function metricsTable({ name, kind, metrics, warnings }, level) {
  const lines = metrics.map((metric) => make('tr', {}, make('th', { scope: 'row' }, said(metric.metric)), make('td', { class: 'number' }, metric.value === null ? '–' : decimal(metric.value)),
    make('td', { class: 'number' }, metric.low === null ? '–' : formatInterval(metric)), make('td', { class: 'number' }, number(metric.n)), make('td', { class: 'away' }, said(metric.reason))));
  return make('details', {}, make('summary', {}, 'All metrics of ', said(name), kind ? ` (${visible(kind)})` : ''),
    simpleTable([['Metric'], ['Value', 'number'], [levelText(level), 'number'], ['n', 'number'], ['', 'away']], lines), ...warnings.map((text) => make('p', { class: 'notice' }, said(text))));
}

/** Everything above the rows of a finished run. */
function overview(page) {
  const { summary, matrix } = page.run;
  const evaluation = summary.evaluations.find((each) => each.name === page.run.evaluation) ?? summary.evaluations[0];
  const beside = [...(matrix ? [matrixTable(page, matrix)] : []), ...(evaluation?.main ? evaluation.slices.map((slices) => sliceTable(page, slices, evaluation.main.metric)) : [])];
  return [
    ...(summary.gates.length ? [gatesTable(summary.gates)] : []),
    ...(beside.length ? [make('section', { class: 'beside' }, ...beside)] : []),
    ...summary.leaderboards.map(leaderboardSection),
    ...(summary.evaluations.length ? [make('section', { class: 'metrics' }, ...summary.evaluations.map((each) => metricsTable(each, summary.level)))] : []),
  ];
}
