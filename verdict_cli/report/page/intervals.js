// Plugins of the chart library: intervals, reference lines, labels next to points.

function whisker(context, from, to, across) {
  const [x1, y1] = from;
  const [x2, y2] = to;
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  for (const [x, y] of [from, to]) {
    context.moveTo(across ? x : x - 4, across ? y - 4 : y);
    context.lineTo(across ? x : x + 4, across ? y + 4 : y);
  }
  context.stroke();
}

/** Draws the intervals that points carry as `low`, `high` (upwards) and `xLow`, `xHigh` (sideways). */
const intervals = {
  id: 'intervals',
  beforeDatasetsDraw(chart) {
    const { ctx: context, scales, chartArea: area } = chart;
    context.save();
    context.lineWidth = 1.5;
    chart.data.datasets.forEach((set, index) => {
      if (!chart.isDatasetVisible(index)) return;
      chart.getDatasetMeta(index).data.forEach((element, place) => {
        const raw = set.data[place];
        if (!raw || typeof raw !== 'object') return;
        context.strokeStyle = raw.colour || set.borderColor;
        const x = (value) => Math.min(Math.max(scales.x.getPixelForValue(value), area.left), area.right);
        const y = (value) => Math.min(Math.max(scales.y.getPixelForValue(value), area.top), area.bottom);
        if (raw.xLow !== null && raw.xLow !== undefined) whisker(context, [x(raw.xLow), element.y], [x(raw.xHigh), element.y], true);
        if (raw.low !== null && raw.low !== undefined) whisker(context, [element.x, y(raw.low)], [element.x, y(raw.high)], false);
      });
    });
    context.restore();
  },
};

/** Draws the line x = `value`, or y = x where `diagonal` is set. */
const reference = {
  id: 'reference',
  beforeDatasetsDraw(chart, _, { value, diagonal, line }) {
    const { ctx: context, scales, chartArea: area } = chart;
    if (!diagonal && (value === null || value === undefined)) return;
    context.save();
    context.beginPath();
    context.rect(area.left, area.top, area.width, area.height);
    context.clip();
    context.strokeStyle = line;
    context.setLineDash([4, 4]);
    context.beginPath();
    if (diagonal) {
      const low = Math.min(scales.x.min, scales.y.min);
      const high = Math.max(scales.x.max, scales.y.max);
      context.moveTo(scales.x.getPixelForValue(low), scales.y.getPixelForValue(low));
      context.lineTo(scales.x.getPixelForValue(high), scales.y.getPixelForValue(high));
    } else {
      const x = scales.x.getPixelForValue(value);
      context.moveTo(x, area.top);
      context.lineTo(x, area.bottom);
    }
    context.stroke();
    context.restore();
  },
};

/** Where a label can be, seen from its point: the alignment, and how far it is to the right and down. */
const PLACES = [['left', 8, -9], ['left', 8, 11], ['right', -8, -9], ['right', -8, 11], ['center', 0, -20], ['center', 0, 22]];

/** The place of each label in which it covers no point, no other label and nothing outside the chart; null if one has none. */
function placed(labels, points, area, widthOf) {
  const boxes = points.map(({ x, y }) => [x - 6, y - 6, x + 6, y + 6]);
  const found = [];
  for (const { x, y, label } of labels) {
    const width = widthOf(label);
    const fits = PLACES.map(([align, dx, dy]) => {
      const left = x + dx - { left: 0, right: width, center: width / 2 }[align];
      return { align, x: x + dx, y: y + dy, box: [left, y + dy - 8, left + width, y + dy + 8] };
    }).find(({ box }) => box[0] >= area.left && box[2] <= area.right + 8 && box[1] >= area.top - 8 && box[3] <= area.bottom
      && !boxes.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]));
    if (!fits) return null;
    boxes.push(fits.box);
    found.push({ ...fits, label });
  }
  return found;
}

/** Writes the labels of points whose series is `named`; numbers, with a list below the chart, where the labels have no room. */
const names = {
  id: 'names',
  afterDatasetsDraw(chart) {
    const { ctx: context, chartArea: area } = chart;
    const visibleSets = chart.data.datasets.map((set, index) => [set, index]).filter(([, index]) => chart.isDatasetVisible(index));
    const spots = visibleSets.flatMap(([set, index]) => chart.getDatasetMeta(index).data.map(({ x, y }, place) => ({ x, y, label: set.named ? set.data[place].label : '' })));
    const labels = spots.filter(({ label }) => label);
    const figure = chart.canvas.closest('figure');
    figure?.querySelector('.key')?.remove();
    if (!labels.length) return;
    context.save();
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = 'middle';
    context.fillStyle = chart.options.color;
    const widthOf = (text) => context.measureText(text).width;
    let texts = placed(labels, spots, area, widthOf);
    if (!texts) {
      const numbered = labels.map((each, place) => ({ ...each, label: String(place + 1) }));
      texts = placed(numbered, spots, area, widthOf) ?? numbered.map(({ x, y, label }) => ({ align: 'left', x: x + 8, y: y - 9, label }));
      const key = make('ol', { class: 'key' }, ...labels.map(({ label }) => make('li', {}, visible(label))));
      chart.canvas.parentElement.after(key);
    }
    for (const { align, x, y, label } of texts) {
      context.textAlign = align;
      context.fillText(label, x, y);
    }
    context.restore();
  },
};
