// The main metric of successive runs of one pipeline on one dataset, with intervals; every point links to its run.

const MOST_TRENDS = 6;
const MOST_POINTS = 30;
/** A run of a smaller share of the rows of the largest one of its pipeline is a trial, which trends leave out. */
const TRIAL_SHARE = 0.2;
const [TREND_WIDTH, TREND_HEIGHT] = [320, 120];
const TREND_EDGE = { left: 38, right: 10, top: 8, bottom: 10 };

function drawn(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The runs that belong together, the oldest first; the latest of them decides the order of the charts. */
function trendsOf(runs) {
  const groups = new Map();
  for (const run of [...runs].sort((a, b) => (a.started < b.started ? -1 : 1))) {
    if (!run.main || run.main.value === null) continue;
    const key = JSON.stringify([run.name, run.dataset, run.main.evaluation, run.main.metric]);
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  const whole = [...groups.values()].map((group) => group.filter((run) => run.rows >= TRIAL_SHARE * Math.max(...group.map((each) => each.rows))));
  return whole.filter((group) => group.length > 1).sort((a, b) => (a.at(-1).started < b.at(-1).started ? 1 : -1));
}

function trendChart(group) {
  const runs = group.slice(-MOST_POINTS);
  const ends = runs.flatMap(({ main }) => [main.value, main.low ?? main.value, main.high ?? main.value]);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const room = (most - least) * 0.08 || Math.abs(most) * 0.1 || 1;
  const x = (at) => TREND_EDGE.left + 12 + (at * (TREND_WIDTH - TREND_EDGE.left - TREND_EDGE.right - 24)) / Math.max(1, runs.length - 1);
  const y = (value) => TREND_EDGE.top + ((most + room - value) * (TREND_HEIGHT - TREND_EDGE.top - TREND_EDGE.bottom)) / (most - least + 2 * room);
  const judges = runs.filter((run) => !run.floors.length);
  const joined = judges.length ? judges : runs;
  const { main, name, dataset } = joined.at(-1);
  const svg = drawn('svg', { viewBox: `0 0 ${TREND_WIDTH} ${TREND_HEIGHT}`, role: 'group', 'aria-label': `${visible(main.metric)} of ${runs.length} runs` });
  for (const value of [least, (least + most) / 2, most]) {
    svg.append(drawn('line', { class: 'grid', x1: TREND_EDGE.left, x2: TREND_WIDTH - TREND_EDGE.right, y1: y(value), y2: y(value) }),
      drawn('text', { x: TREND_EDGE.left - 5, y: y(value) + 3 }, value.toPrecision(2)));
  }
  svg.append(drawn('polyline', { points: joined.map((run) => `${x(runs.indexOf(run))},${y(run.main.value)}`).join(' ') }));
  runs.forEach((run, at) => {
    const says = `${run.run}: ${run.main.metric} ${formatMetric(run.main)}, ${Object.keys(run.models).join(', ')}, ${shortTime(run.started)}`;
    const point = drawn('a', { href: urlWith({ run: run.run }, '/run'), 'aria-label': visible(says), class: run.floors.length ? 'baseline' : runState(run) });
    if (run.main.low !== null) point.append(drawn('line', { class: 'whisker', x1: x(at), x2: x(at), y1: y(run.main.low), y2: y(run.main.high) }));
    point.append(drawn('circle', { class: 'target', cx: x(at), cy: y(run.main.value), r: 9 }), drawn('circle', { class: 'point', cx: x(at), cy: y(run.main.value), r: 4 }), drawn('title', {}, visible(says)));
    svg.append(point);
  });
  const [last, before] = joined.slice(-2).reverse();
  return make('figure', { class: 'trend' },
    make('figcaption', {}, make('h3', {}, said(name), ' on ', said(dataset)),
      make('p', {}, said(`${main.evaluation}: ${main.metric.replaceAll('_', ' ')}`), `, ${count(group.length, 'run')}; latest ${decimal(last.main.value)}${before ? `, before ${decimal(before.main.value)}` : ''}`)), svg);
}

/** The charts of the runs, the most recent first. */
function trendCharts(runs) {
  const trends = trendsOf(runs);
  if (!trends.length) return [];
  const folded = trends.slice(MOST_TRENDS);
  return [make('h2', {}, 'Trends'),
    make('p', { class: 'note' }, 'The main metric of successive runs of one pipeline on one dataset, with intervals. Hollow points are baselines, not LLM judges; the line joins the others. Trial runs, of less than a fifth of the rows, are left out.'),
    make('div', { class: 'trends' }, ...trends.slice(0, MOST_TRENDS).map(trendChart)),
    ...(folded.length ? [make('details', {}, make('summary', {}, `${number(folded.length)} more`), make('div', { class: 'trends' }, ...folded.slice(0, 60).map(trendChart)))] : [])];
}
