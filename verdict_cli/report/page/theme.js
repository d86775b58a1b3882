// Light or dark colours: the system's setting, until the reader switches.

const root = document.documentElement;
const dark = window.matchMedia('(prefers-color-scheme: dark)');

/** Functions to call when the colours have changed. */
const recoloured = [];

/** The theme that is shown. */
const theme = () => root.dataset.theme || (dark.matches ? 'dark' : 'light');

/** A colour of the style sheet. */
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

function showTheme(button) {
  button.textContent = theme() === 'dark' ? 'Light' : 'Dark';
  button.setAttribute('aria-label', `Show this page in ${theme() === 'dark' ? 'light' : 'dark'} colours`);
  for (const each of recoloured) each();
}

function startTheme() {
  const button = document.getElementById('theme');
  button.hidden = false;
  button.addEventListener('click', () => {
    root.dataset.theme = theme() === 'dark' ? 'light' : 'dark';
    showTheme(button);
  });
  dark.addEventListener('change', () => showTheme(button));
  let before;
  window.addEventListener('beforeprint', () => {
    before = root.dataset.theme;
    root.dataset.theme = 'light';
    for (const each of recoloured) each();
  });
  window.addEventListener('afterprint', () => {
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
    for (const each of recoloured) each();
  });
  showTheme(button);
}
