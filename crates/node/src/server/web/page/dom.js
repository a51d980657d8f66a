// Elements. Text of others enters the page as text nodes and attribute values only.

const SVG = 'http://www.w3.org/2000/svg';

const byId = (id) => document.getElementById(id);

/** An element with attributes (false and null ones left out) and children: elements or texts. */
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in a drawing. */
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  element.append(...children.flat().filter((it) => it !== null && it !== undefined && it !== ''));
  return element;
}

/** Sets a text if it differs: screen readers and selections notice every change. */
function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/** A word with a colour; the word says the same. */
function badge(text, tone = 'quiet') {
  return el('span', { class: 'badge', 'data-tone': tone }, text);
}

/** A name whose line may end after the namespace. */
const breakable = (name) => name.split('/').flatMap((it, at, all) => (at < all.length - 1 ? [`${it}/`, el('wbr')] : [it]));

/** A table of texts and elements, in a frame that scrolls. Columns: [title, class]. */
function table(caption, columns, rows) {
  const head = columns.map(([title, kind]) => el('th', { scope: 'col', class: kind }, title));
  const body = rows.map((cells) => el('tr', {}, cells.map((cell, at) => {
    const kind = columns[at][1];
    return at === 0 ? el('th', { scope: 'row', class: kind }, cell) : el('td', { class: kind }, cell);
  })));
  return el('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': caption, 'data-key': `table ${caption}` },
    el('table', {}, el('caption', { class: 'unseen' }, caption),
      el('thead', {}, el('tr', {}, head)), el('tbody', {}, body)));
}

/** A list of terms and values; those without a value are left out. */
function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return el('dl', { class: 'facts' },
    known.map(([term, value]) => el('div', {}, el('dt', {}, term), el('dd', {}, value))));
}

/**
 * Replaces the children of an element. What is open stays so, and the keyboard's focus where it is: what can have it needs a
 * `data-key`. A child that takes elements of before with it is a function: they lose the focus when they leave their place.
 */
function replace(element, ...children) {
  const open = new Set([...element.querySelectorAll('details[open]')].map((it) => it.dataset.key));
  const focus = element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  element.replaceChildren(...children.map((it) => (typeof it === 'function' ? it() : it)));
  for (const it of element.querySelectorAll('details')) {
    it.open = it.open || open.has(it.dataset.key);
  }
  if (focus) {
    element.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  }
}

const NUMBER = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const count = (value) => NUMBER.format(value);
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? '' : 's'}`;

/** Connections a second: 0, 0.4, 12, 3.4k. */
function rate(value) {
  if (value === null) {
    return '–';
  }
  if (value >= 10000) {
    return `${(value / 1000).toFixed(0)}k`;
  }
  return value === 0 || value >= 10 ? value.toFixed(0) : value.toFixed(1);
}

/** Seconds as people write them: 0.4 ms, 12 ms, 3.2 s. */
function duration(seconds) {
  const ms = seconds * 1000;
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${ms.toFixed(0)} ms` : `${seconds.toFixed(1)} s`;
}

/** A longer time: 42 s, 3 min, 5 h, 12 d. */
function age(seconds) {
  const [unit, size] = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]].find(([, it]) => seconds >= it) ?? ['s', 1];
  return `${Math.floor(seconds / size)} ${unit}`;
}

/** Tells screen readers, when they have time. */
function announce(text) {
  byId('news').textContent = text;
}
