// Charts of the viewer: those of the reports, drawn once the chart library is here.

let library;

function chartLibrary() {
  library ??= new Promise((ready, failed) => {
    const script = make('script', { src: '/assets/library.js' });
    script.addEventListener('load', () => { libraryRan(); ready(); });
    script.addEventListener('error', failed);
    document.head.append(script);
  });
  return library;
}

/** A chart of `chart.height` pixels; nothing where the library cannot be loaded, as the table beside it has the numbers. */
function chartFigure(title, chart, caption = '') {
  const canvas = make('canvas', { role: 'img', 'aria-label': `${title}, as in the table` });
  const figure = make('figure', { class: 'chart' }, make('div', { class: 'canvas', style: `height: ${chart.height}px` }, canvas),
    ...(caption ? [make('figcaption', {}, caption)] : []));
  chartLibrary().then(() => addChart(canvas, chart), () => figure.remove());
  return figure;
}
