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

/** Writes the labels of points whose series is `named`. */
const names = {
  id: 'names',
  afterDatasetsDraw(chart) {
    const { ctx: context, chartArea: area } = chart;
    context.save();
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = 'bottom';
    chart.data.datasets.forEach((set, index) => {
      if (!set.named || !chart.isDatasetVisible(index)) return;
      context.fillStyle = chart.options.color;
      chart.getDatasetMeta(index).data.forEach((element, place) => {
        const label = set.data[place].label;
        const left = element.x + context.measureText(label).width + 10 > area.right;
        context.textAlign = left ? 'right' : 'left';
        context.fillText(label, element.x + (left ? -7 : 7), element.y - 4);
      });
    });
    context.restore();
  },
};
