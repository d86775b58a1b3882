// The URL holds the whole state, so that every view can be linked to, and the back button works.

const urlParams = () => new URLSearchParams(window.location.search);

/** The URL with changed parameters. null removes a parameter, a list sets several values. */
function urlWith(changes, path = window.location.pathname) {
  const params = changedParams(path === window.location.pathname ? urlParams() : '', changes);
  const query = params.toString();
  return query ? `${path}?${query}` : path;
}

let shownPage = null;

/** Change the parameters of the URL and update the page. */
function go(changes, { replace = false } = {}) {
  window.history[replace ? 'replaceState' : 'pushState'](null, '', urlWith(changes));
  return shownPage?.update();
}

/** The address of the page, as the table of rows uses it. */
const pageAddress = { params: urlParams, href: urlWith, go, set: (changes) => window.history.pushState(null, '', urlWith(changes)) };

class RequestError extends Error {}

/** Load JSON from the server. Throws RequestError. */
async function fetchJson(path, changes = {}, options = {}) {
  const query = changedParams('', changes);
  const response = await fetch(`${path}?${query}`, options);
  const document_ = await response.json().catch(() => ({ error: `the server returned status ${response.status}` }));
  if (!response.ok) throw new RequestError(typeof document_.error === 'string' ? document_.error : document_.error?.message ?? 'request failed');
  return document_;
}

const sleep = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
const duration = (seconds) => (seconds < 60 ? `${seconds.toFixed(1)} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s` : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`);
const formatTime = (text) => (text ? text.replace('T', ' ').replace(/(:\d\d)(\+00:00|Z)$/, '$1 UTC').slice(0, 20) : '–');
const formatInterval = ({ low, high }) => (low === null || low === undefined ? '' : `[${decimal(low)}, ${decimal(high)}]`);
const formatMetric = (metric) => `${metric.value === null ? '–' : decimal(metric.value)} ${formatInterval(metric)}`.trim();
const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
const link = (href, ...content) => make('a', { href }, ...content);

/** Replace the content of the page: kicker, title, and further elements. */
function showPage(kicker, title, ...rest) {
  document.title = `${title} – Verdict`;
  const main = document.getElementById('content');
  main.replaceChildren(make('p', { class: 'kicker' }, kicker), make('h1', {}, said(title)), ...rest);
  return main;
}
