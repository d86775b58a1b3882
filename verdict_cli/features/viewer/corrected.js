// What a run's human labels do to its metrics.

const metricCell = (metric, text = 'number') => make('td', { class: text }, metric.value === null ? '–' : formatMetric(metric));

function correctedTable({ name, metrics }, several) {
  const lines = metrics.map(({ metric, given, relabelled, human }) => make('tr', {}, make('th', { scope: 'row' }, breakable(several ? `${name}: ${metric}` : metric)),
    metricCell(given), make('td', { class: 'number gain' }, relabelled.value === null ? '–' : formatMetric(relabelled)),
    make('td', { class: 'number away' }, human.value === null ? '–' : `${formatMetric(human)} n=${number(human.n)}`)));
  return simpleTable([['Metric'], ["Dataset's labels", 'number'], ['Corrected by your labels', 'number'], ['Labelled rows alone', 'number away']], lines);
}

const ESTIMATES = { judged: 'the judge, uncorrected', labelled: 'the labels alone', ppi: 'the judge, corrected by the labels (PPI++)', rogan_gladen: 'corrected by sensitivity and specificity' };

function estimatesTable({ name, estimates }) {
  return [make('h3', {}, 'Estimates for all rows: ', said(name)), simpleTable([['Estimate'], ['', 'away'], ['Value', 'number'], ['', 'away']], estimates.map((each) => make('tr', {},
    make('th', { scope: 'row' }, each.metric), make('td', { class: 'away' }, ESTIMATES[each.metric] ?? ''), metricCell(each), make('td', { class: 'away' }, said(each.reason)))))];
}

/** How often people agree, and the judge with them: a chart, and its numbers. */
function agreementSection({ name, agreement }, several) {
  const lines = agreement.rows.map(([who, value, interval, note]) => make('tr', {}, make('th', { scope: 'row' }, said(who)),
    make('td', { class: 'number' }, value), make('td', { class: 'number away' }, interval), make('td', { class: 'number' }, note)));
  return [make('h3', {}, 'Agreement of annotators', ...(several ? [': ', said(name)] : [])), chartFigure('Agreement of annotators', agreement, agreement.caption),
    simpleTable([['Who'], [agreement.x, 'number'], ['Interval', 'number away'], ['', 'number']], lines)];
}

/** The metrics of a run with its human labels. `show(run)` loads them again after each label. */
class CorrectedSection {
  constructor(run) {
    this.run = run;
    this.element = make('section', { id: 'corrected', 'aria-live': 'polite' });
  }

  async show({ labelled, large }, asked = false) {
    const request = this.latest = {};
    if (!labelled) {
      this.element.replaceChildren();
      return;
    }
    const title = make('h2', {}, 'Metrics with your labels');
    if (large && !asked) {
      const compute = make('button', { type: 'button' }, 'Compute');
      compute.addEventListener('click', () => this.show({ labelled, large }, true));
      this.element.replaceChildren(title, make('p', {}, `${count(labelled, 'row')} labelled. `, compute));
      return;
    }
    let data = { ready: false };
    try {
      while (!data.ready) {
        data = await fetchJson('/api/labels', { run: this.run });
        if (request !== this.latest) return;
        if (!data.ready) await sleep(500);
      }
    } catch (error) {
      data = { error: error.message, evaluations: [] };
    }
    if (request !== this.latest) return;
    if (data.error) {
      this.element.replaceChildren(title, make('p', { class: 'notice' }, said(data.error)));
      return;
    }
    const of = [count(data.labelled, 'row'), ' labelled', data.wrong ? `, ${number(data.wrong)} of them rows that the judge got wrong` : '', `; ${count(data.changed, 'label')} differ${data.changed === 1 ? 's' : ''} from the dataset.`];
    const code = (text) => make('code', {}, text);
    const note = data.drawn ? ['The estimates use the labels of the queue, whose rows were drawn at random.']
      : ['Rows without your label keep that of the dataset. Labels of chosen rows bias these metrics: reviewing only wrong rows can only raise accuracy. ', code('verdict queue'), ' draws rows at random.'];
    this.element.replaceChildren(title, make('p', { role: 'status' }, ...of),
      ...data.evaluations.map((each) => correctedTable(each, data.evaluations.length > 1)), make('p', { class: 'note' }, ...note),
      ...data.evaluations.filter((each) => each.estimates.length).flatMap(estimatesTable),
      ...data.evaluations.filter((each) => each.agreement).flatMap((each) => agreementSection(each, data.evaluations.length > 1)),
      make('p', { class: 'note' }, code('verdict report RUN --labels'), ' writes these metrics into the report.'));
  }
}
