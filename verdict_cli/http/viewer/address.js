// The address holds the whole state: what is shown can be linked to, and goes back and forth with the browser.

const asked = () => new URLSearchParams(window.location.search);

/** The address with these changes; null takes a name out, a list gives it several values. */
function addressed(changes, path = window.location.pathname) {
  const now = path === window.location.pathname ? asked() : new URLSearchParams();
  for (const [name, value] of Object.entries(changes)) {
    now.delete(name);
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== '') now.append(name, each);
    }
  }
  const text = now.toString();
  return text ? `${path}?${text}` : path;
}

let shownPage = null;

/** Goes to the changed address and shows it. */
function go(changes, { replace = false } = {}) {
  window.history[replace ? 'replaceState' : 'pushState'](null, '', addressed(changes));
  return shownPage?.update();
}

class Refused extends Error {}

/** JSON from the server. */
async function fetched(path, changes = {}, options = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(changes)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== '') query.append(name, each);
    }
  }
  const answer = await fetch(`${path}?${query}`, options);
  const document_ = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  if (!answer.ok) throw new Refused(typeof document_.error === 'string' ? document_.error : document_.error?.message ?? 'refused');
  return document_;
}

const waited = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
const money = (value) => (value === null ? 'unknown' : `$${value >= 1 || !value ? value.toFixed(2) : value.toPrecision(3)}`);
const duration = (seconds) => (seconds < 60 ? `${seconds.toFixed(1)} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s` : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`);
const moment = (text) => (text ? text.replace('T', ' ').replace(/(:\d\d)(\+00:00|Z)$/, '$1 UTC').slice(0, 20) : '–');
const figure = ({ value, low, high }) => `${value === null ? '–' : number(value)}${low === null || low === undefined ? '' : ` [${number(low)}, ${number(high)}]`}`;
const link = (href, ...content) => make('a', { href }, ...content);

/** A select whose options are pairs of value and text. */
function choice(label, options, value) {
  const select = make('select', { 'aria-label': label }, ...options.map(([key, text]) => make('option', { value: key }, visible(text))));
  select.value = value ?? '';
  return select;
}

/** The page's heading, in the place of what was there; what follows is added behind it. */
function headed(kicker, title, ...rest) {
  document.title = `${title} – Verdict`;
  const main = document.getElementById('content');
  main.replaceChildren(make('p', { class: 'kicker' }, kicker), make('h1', {}, said(title)), ...rest);
  return main;
}
