// Configurations of the chart library from the page's chart data.

const SIGNS = ['circle', 'rect', 'triangle', 'rectRot', 'crossRot', 'star'];
const interval = (low, high) => (low === null || low === undefined ? '' : ` [${number(low)}, ${number(high)}]`);
const known = (values) => values.filter((value) => value !== null && value !== undefined);

/** A range that includes every value and interval, for a chart without one. */
const room = (values) => (known(values).length ? { suggestedMin: Math.min(...known(values)), suggestedMax: Math.max(...known(values)) } : {});

/** The text as lines of at most `most` characters, broken after spaces and signs where there are any. */
function wrapped(text, most) {
  const lines = [''];
  for (const piece of text.match(/[^\s_\-/=.,]+[\s_\-/=.,]*|[\s_\-/=.,]+/gu) ?? ['']) {
    for (const part of piece.match(new RegExp(`.{1,${most}}`, 'gsu'))) {
      if (lines.at(-1) && (lines.at(-1) + part.trimEnd()).length > most) lines.push('');
      lines[lines.length - 1] += part;
    }
  }
  return lines.map((line) => line.trimEnd());
}

function axis(title, range, more = {}) {
  const [min, max] = range || [null, null];
  return {
    title: { display: Boolean(title), text: title, color: colour('soft') },
    grid: { color: colour('grid'), drawTicks: false },
    border: { display: false },
    ticks: { color: colour('soft'), padding: 6 },
    ...(min === null ? {} : { min }),
    ...(max === null ? {} : { max }),
    ...more,
  };
}

function options(scales, legend, line, label, more = {}) {
  return {
    animation: false,
    responsive: true,
    maintainAspectRatio: false,
    color: colour('ink'),
    layout: { padding: { right: 8, top: 4 } },
    scales,
    plugins: {
      legend: { display: legend, align: 'start', labels: { color: colour('ink'), usePointStyle: true, boxHeight: 7 } },
      reference: { ...line, line: colour('soft') },
      tooltip: { callbacks: label },
    },
    ...more,
  };
}

const kinds = {
  dots(chart, narrow) {
    const points = chart.spots.map(([value, low, high, strong], place) => ({
      x: value, y: place, xLow: low, xHigh: high, strong, colour: colour(strong ? 'c1' : 'c0'),
    })).filter((point) => point.x !== null);
    const colours = points.map((point) => point.colour);
    const strong = ({ tick }) => Boolean(tick && chart.spots[tick.value]?.[3]);
    const labels = chart.labels.map((label) => wrapped(label, narrow ? 18 : 34));
    const lines = Math.max(1, ...labels.map((label) => label.length));
    return {
      height: lines > 1 ? 64 + (12 + 15 * lines) * labels.length : null,
      type: 'scatter',
      data: {
        datasets: [{
          data: points,
          backgroundColor: colours,
          borderColor: colours,
          pointStyle: points.map((point) => (point.strong ? 'rectRot' : 'circle')),
          radius: points.map((point) => (point.strong ? 6 : 4.5)),
          hoverRadius: 7,
          clip: 10,
        }],
      },
      options: options({
        x: axis(chart.x, chart.xRange, room(chart.spots.flatMap(([value, low, high]) => [value, low, high]))),
        y: axis('', [-0.6, chart.labels.length - 0.4], {
          reverse: true,
          afterBuildTicks: (scale) => { scale.ticks = chart.labels.map((_, value) => ({ value })); },
          ticks: {
            autoSkip: false,
            padding: 8,
            color: (context) => colour(strong(context) ? 'ink' : 'soft'),
            font: (context) => ({ weight: strong(context) ? '650' : '400' }),
            callback: (_, index) => labels[index],
          },
        }),
      }, false, { value: chart.reference }, {
        label: ({ raw }) => `${chart.labels[raw.y]}: ${number(raw.x)}${interval(raw.xLow, raw.xHigh)}`,
      }),
    };
  },

  scatter(chart) {
    const isOneX = new Set(chart.series.flatMap(({ places }) => places.map(([x]) => x))).size < 2;
    return {
      type: 'scatter',
      data: {
        datasets: chart.series.map((series, place) => ({
          label: series.name,
          named: series.named,
          data: series.places.map(([x, y, low, high, label]) => ({ x, y, low, high, label })),
          showLine: series.joined,
          borderColor: colour(`c${place % 6}`),
          backgroundColor: colour(`c${place % 6}`),
          borderWidth: 1.5,
          pointStyle: SIGNS[place % 6],
          radius: 4.5,
          hoverRadius: 7,
          clip: 10,
        })),
      },
      options: options({
        x: axis(chart.x, chart.xRange, chart.logarithmic ? { type: 'logarithmic' } : { beginAtZero: isOneX }),
        y: axis(chart.y, chart.yRange, room(chart.series.flatMap(({ places }) => places.flatMap(([, y, low, high]) => [y, low, high])))),
      }, chart.series.length > 1, { diagonal: chart.diagonal }, {
        label: ({ raw, dataset }) => {
          const name = [dataset.label, raw.label].filter(Boolean).join(' ');
          return `${name ? `${name}: ` : ''}${number(raw.x)}, ${number(raw.y)}${interval(raw.low, raw.high)}`;
        },
      }),
    };
  },

  bars(chart) {
    return {
      type: 'bar',
      data: {
        labels: chart.labels,
        datasets: chart.series.map(([name, values], place) => ({
          label: name,
          data: values,
          backgroundColor: colour(`c${place % 6}`),
          borderColor: colour('paper'),
          borderWidth: chart.joined ? 0.5 : 0,
          categoryPercentage: chart.joined ? 1 : 0.8,
          barPercentage: chart.joined ? 1 : 0.9,
          maxBarThickness: chart.joined ? undefined : 56,
          pointStyle: 'rect',
        })),
      },
      options: options({
        x: axis(chart.x, null, { stacked: true, grid: { display: false } }),
        y: axis(chart.y, null, { stacked: true, beginAtZero: true }),
      }, chart.series.length > 1, {}, {
        label: ({ raw, dataset }) => `${dataset.label ? `${dataset.label}: ` : ''}${number(raw)}`,
      }),
    };
  },

  matrix(chart, narrow) {
    const count = chart.labels.length;
    const labels = chart.labels.map((label) => wrapped(label, narrow ? 10 : 18));
    const points = chart.counts.flatMap((row, y) => {
      const total = row.reduce((sum, each) => sum + each, 0);
      return row.map((rows, x) => ({ x, y, rows, share: total ? rows / total : 0, colour: colour(x === y ? 'right' : 'wrong') }));
    }).filter(({ rows }) => rows);
    const side = ({ chart: { chartArea: area }, raw }) => {
      if (!area || !raw) return 0;
      return 0.66 * Math.min(area.width, area.height) / count * Math.sqrt(raw.share);
    };
    const places = { afterBuildTicks: (scale) => { scale.ticks = chart.labels.map((_, value) => ({ value })); } };
    const ticks = { color: colour('soft'), autoSkip: false, padding: 6, callback: (_, index) => labels[index] };
    const grid = { color: colour('grid'), drawTicks: false };
    return {
      type: 'scatter',
      data: { datasets: [{ data: points, pointStyle: 'rect', backgroundColor: points.map((point) => point.colour), borderWidth: 0, radius: side, hoverRadius: side }] },
      options: options({
        x: axis('prediction', [-0.5, count - 0.5], { ...places, ticks, grid }),
        y: axis('target', [-0.5, count - 0.5], { ...places, ticks, grid, reverse: true }),
      }, false, {}, {
        label: ({ raw }) => `target ${chart.labels[raw.y]}, prediction ${chart.labels[raw.x]}: ${number(raw.rows)} (${Math.round(100 * raw.share)}%)`,
      }),
    };
  },
};

const drawnCharts = new Map();
const chartData = new Map();

function drawChart(canvas) {
  drawnCharts.get(canvas)?.destroy();
  const chart = chartData.get(canvas);
  const { height, ...config } = kinds[chart.type](chart, window.innerWidth < 700);
  if (height) canvas.parentElement.style.height = `${height}px`;
  drawnCharts.set(canvas, new window.Chart(canvas, { ...config, plugins: [intervals, reference, names] }));
}

const nearCharts = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && !drawnCharts.has(target)) drawChart(target);
  }
}, { rootMargin: '400px' });

/** Draws the chart as soon as its canvas is near the screen. Charts that the page no longer has are forgotten. */
function addChart(canvas, chart) {
  for (const other of [...chartData.keys()].filter((each) => drawnCharts.has(each) && !each.isConnected)) {
    drawnCharts.get(other)?.destroy();
    drawnCharts.delete(other);
    chartData.delete(other);
    nearCharts.unobserve(other);
  }
  chartData.set(canvas, chart);
  nearCharts.observe(canvas);
}

window.addEventListener('beforeprint', () => [...chartData.keys()].filter((canvas) => !drawnCharts.has(canvas)).forEach(drawChart));
recoloured.push(() => [...drawnCharts.keys()].forEach(drawChart));
document.addEventListener('toggle', () => {
  for (const chart of drawnCharts.values()) chart.resize();
}, true);

function libraryRan() {
  if (!window.Chart) throw new Error('the chart library did not run');
  window.Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
}

/** Runs the library's script. The page's policy allows it by its hash. */
async function libraryReady(place) {
  document.head.append(make('script', {}, await unpacked(place.textContent)));
  libraryRan();
}

async function startCharts() {
  const place = document.getElementById('library');
  if (!place) return;
  const charts = parsed(document.getElementById('charts'));
  const canvases = [...document.querySelectorAll('canvas[data-chart]')];
  try {
    await libraryReady(place);
  } catch {
    for (const canvas of canvases) {
      const figure = canvas.closest('figure');
      figure.classList.add('undrawn');
      const folded = figure.querySelector('details');
      if (folded) folded.open = true;
    }
    return;
  }
  canvases.forEach((canvas) => addChart(canvas, charts[Number(canvas.dataset.chart)]));
}
