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
    return {
      type: 'scatter',
      data: {
        datasets: chart.series.map((series, place) => ({
          label: series.name,
          named: series.named,
          data: series.places.map(([x, y, low, high, xLow, xHigh, label]) => ({ x, y, low, high, xLow, xHigh, label })),
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
        x: axis(chart.x, chart.xRange, chart.logarithmic ? { type: 'logarithmic' } : {}),
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
};

/** Runs the library's script. The page's policy allows it by its hash. */
async function libraryReady(place) {
  document.head.append(make('script', {}, await unpacked(place.textContent)));
  if (!window.Chart) throw new Error('the chart library did not run');
  window.Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
}

async function startCharts() {
  const place = document.getElementById('library');
  if (!place) return;
  const described = parsed(document.getElementById('charts'));
  const canvases = [...document.querySelectorAll('canvas[data-chart]')];
  try {
    await libraryReady(place);
  } catch {
    for (const canvas of canvases) {
      const figure = canvas.closest('figure');
      figure.classList.add('undrawn');
      figure.querySelector('details').open = true;
    }
    return;
  }
  const drawn = new Map();
  const draw = (canvas) => {
    drawn.get(canvas)?.destroy();
    const chart = described[Number(canvas.dataset.chart)];
    const { height, ...config } = kinds[chart.type](chart, window.innerWidth < 700);
    if (height) canvas.parentElement.style.height = `${height}px`;
    drawn.set(canvas, new window.Chart(canvas, { ...config, plugins: [intervals, reference, names] }));
  };
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting && !drawn.has(target)) draw(target);
    }
  }, { rootMargin: '400px' });
  for (const canvas of canvases) seen.observe(canvas);
  window.addEventListener('beforeprint', () => canvases.filter((canvas) => !drawn.has(canvas)).forEach(draw));
  recoloured.push(() => [...drawn.keys()].forEach(draw));
  document.addEventListener('toggle', () => {
    for (const chart of drawn.values()) chart.resize();
  }, true);
}
