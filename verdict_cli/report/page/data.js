// Data is in `<script>` elements as JSON, some of it compressed. It enters the page as text only.

/** The JSON of an element. */
const parsed = (element) => JSON.parse(element.textContent);

/** The text that `compress.py` packed: gzip in base64. */
async function unpacked(text) {
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('this browser cannot unpack the data of this page');
  }
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

/** A new element with these attributes and children; other children become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]|\p{Cs}/gu;

/** The text with control and direction characters as escapes; line ends and tabs stay. */
function visible(text) {
  return String(text).replace(/\r\n/g, '\n').replace(HIDDEN, (sign) => {
    const code = sign.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** A value of the data as text whose direction does not affect the text around it. */
const said = (value) => make('bdi', {}, visible(worded(value)));

/** A value as text. */
function worded(value) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'number') return number(value);
  return typeof value === 'object' ? JSON.stringify(value, null, 1) : String(value);
}

/** Integers as they are, else as `decimal`. */
const number = (value) => (Number.isInteger(value) ? value.toLocaleString('en') : decimal(value));

/** Three decimals; a number just above 0 or just under 1 never becomes 0 or 1. `report/formatting.py` has the same. */
function decimal(value) {
  const size = Math.abs(value);
  if (size < 1e-12) return '0.000';
  if (size < 0.00005) return value.toExponential(0);
  if (size < 0.001) return value.toFixed(4);
  if (size >= 0.9995 && size < 1) return (Math.sign(value) * Math.min(size, 0.9999)).toFixed(4);
  return size >= 1000 ? Math.round(value).toLocaleString('en') : value.toFixed(3);
}

/** US dollars: cents from one dollar on, else up to four decimals. */
function money(value) {
  if (value === null) return 'unknown';
  if (value > 0 && value < 0.00005) return '< $0.0001';
  const cents = value.toFixed(2);
  const fine = value.toFixed(4).replace(/0+$/, '');
  return `$${value < 1 && fine.length > cents.length ? fine : cents}`;
}

/** A name that may break after its separators, and nowhere else. */
const breakable = (text) => make('bdi', {}, ...visible(text).split(/(?<=[/._-])/).flatMap((piece, at) => (at ? [make('wbr'), piece] : [piece])));
