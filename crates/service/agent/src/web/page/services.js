// The list of Services.

/** Rows shown at first, and with each press of the button below. */
const ROWS = 200;

const COLUMNS = [
  { key: 'name', title: 'Service', order: (it) => it.name },
  { key: 'kind', title: 'Type', kind: 'wide', order: (it) => it.kind },
  { key: 'frontends', title: 'Frontends', kind: 'wide' },
  { key: 'ready', title: 'Ready', kind: 'number', order: (it) => it.ready },
  { key: 'rate', title: 'New/s', label: 'New connections per second', kind: 'number', order: (it) => state.rates.of(it.name) ?? 0, down: true },
  { key: 'issues', title: 'Issues', kind: 'wide', order: (it) => trouble(it), down: true },
];

const list = { sort: 'issues', down: true, filter: '', limit: ROWS, rows: new Map() };

/** How much is wrong: no endpoint answers, then issues. */
const trouble = (service) => (service.isDead ? 1000 : 0) + service.issues.length;

function startServices() {
  const head = byId('service-list').querySelector('thead tr');
  for (const column of COLUMNS) {
    const title = column.order
      ? el('button', { type: 'button', 'aria-label': column.label, 'data-key': column.key }, column.title)
      : column.title;
    const cell = el('th', { scope: 'col', class: column.kind }, title);
    column.head = cell;
    if (column.order) {
      title.addEventListener('click', () => {
        list.down = list.sort === column.key ? !list.down : Boolean(column.down);
        list.sort = column.key;
        showServices();
      });
    }
    head.append(cell);
  }
  byId('filter-form').addEventListener('submit', (event) => event.preventDefault());
  byId('filter').addEventListener('input', (event) => {
    list.filter = event.target.value.trim().toLowerCase();
    list.limit = ROWS;
    showServices();
    announce(byId('shown').textContent);
  });
  byId('more-services').addEventListener('click', () => {
    list.limit += ROWS;
    showServices();
  });
}

/** Whether each word of the filter is in the Service's name, type or frontends. */
function isWanted(service) {
  const text = `${service.name} ${service.kind} ${service.frontends.join(' ')}`.toLowerCase();
  return list.filter.split(/\s+/).every((word) => text.includes(word));
}

function showServices() {
  const column = COLUMNS.find((it) => it.key === list.sort);
  const sign = list.down ? -1 : 1;
  const compare = (a, b) => {
    const [x, y] = [column.order(a), column.order(b)];
    return x < y ? -sign : x > y ? sign : a.name < b.name ? -1 : 1;
  };
  const wanted = state.services.filter(isWanted).sort(compare);
  const shown = wanted.slice(0, list.limit);
  for (const it of COLUMNS.filter((it) => it.order)) {
    const order = it === column ? (list.down ? 'descending' : 'ascending') : 'none';
    it.head.setAttribute('aria-sort', order);
  }
  setText(byId('shown'), list.filter ? `${count(wanted.length)} of ${plural(state.services.length, 'Service')}` : plural(state.services.length, 'Service'));
  const body = byId('service-list').tBodies[0];
  const focus = document.activeElement;
  const names = new Set(shown.map((it) => it.name));
  for (const [name, row] of list.rows) {
    if (!names.has(name)) {
      row.element.remove();
      list.rows.delete(name);
    }
  }
  shown.forEach((service, at) => {
    let row = list.rows.get(service.name);
    if (!row) {
      row = makeRow(service.name);
      list.rows.set(service.name, row);
    }
    updateRow(row, service);
    if (body.rows[at] !== row.element) {
      body.insertBefore(row.element, body.rows[at] ?? null);
    }
  });
  // A row that moves loses the focus.
  if (focus !== document.activeElement && body.contains(focus)) {
    focus.focus({ preventScroll: true });
  }
  const empty = byId('no-services');
  empty.hidden = wanted.length > 0;
  setText(empty, list.filter ? 'No Service fits the filter.' : 'No Service is known.');
  const more = byId('more-services');
  more.hidden = wanted.length <= list.limit;
  setText(more, `Show ${count(Math.min(ROWS, wanted.length - list.limit))} more of ${plural(wanted.length, 'Service')}`);
}

function makeRow(name) {
  const [namespace, short] = name.split('/');
  const cells = { kind: el('td', { class: 'wide' }), frontends: el('td', { class: 'wide' }), ready: el('td', { class: 'number' }),
    rate: el('td', { class: 'number' }), issues: el('td', { class: 'wide issues' }), under: el('span', { class: 'under quiet' }) };
  const link = el('a', { href: `#service/${name}` }, el('span', { class: 'quiet' }, `${namespace}/`), el('wbr'), short);
  const element = el('tr', {}, el('th', { scope: 'row' }, link, cells.under),
    cells.kind, cells.frontends, cells.ready, cells.rate, cells.issues);
  element.addEventListener('animationend', () => element.classList.remove('changed'));
  return { element, cells, service: null };
}

function updateRow(row, service) {
  const { cells } = row;
  setText(cells.rate, rate(state.rates.of(service.name)));
  if (row.service === service) {
    return;
  }
  const text = JSON.stringify(service);
  if (row.text === text) {
    row.service = service;
    return;
  }
  if (state.hasStarted) {
    row.element.classList.add('changed');
  }
  Object.assign(row, { service, text });
  setText(cells.kind, service.kind);
  const frontends = service.frontends.slice(0, 3).map((it) => el('span', {}, it));
  if (service.frontends.length > 3) {
    frontends.push(el('span', { class: 'quiet' }, `and ${count(service.frontends.length - 3)} more`));
  }
  cells.frontends.replaceChildren(el('span', { class: 'frontends' }, frontends));
  const wrong = service.isDead ? 'no endpoint answers' : service.issues.length ? plural(service.issues.length, 'issue') : '';
  cells.under.className = wrong ? 'under wrong' : 'under quiet';
  setText(cells.under, wrong || service.frontends[0] || service.kind);
  cells.ready.replaceChildren(...readiness(service.ready, service.endpoints, service.isDead));
  cells.issues.replaceChildren(...[
    service.isDead ? badge('no endpoint answers', 'bad') : null,
    service.issues.length ? el('div', { class: 'clamp' }, service.issues[0] + (service.issues.length > 1 ? ` (and ${service.issues.length - 1} more)` : '')) : null,
  ].filter(Boolean));
}

/** `2/3` and a bar. */
function readiness(ready, all, isDead) {
  const share = all ? ready / all : 0;
  const bar = el('i');
  bar.style.width = `${share * 100}%`;
  return [el('span', { class: 'ready' }, `${count(ready)}/${count(all)}`,
    el('span', { class: 'meter', 'data-tone': isDead ? 'bad' : 'good', 'aria-hidden': 'true' }, bar))];
}

function showTiles() {
  const { status } = state;
  const total = state.rates.sum();
  const troubled = status.without_endpoints;
  const last = status.last_sync;
  const tiles = [
    ['Services', count(status.services)],
    ['Frontends', count(status.frontends)],
    ['Endpoints', count(status.endpoints)],
    ['New connections/s', rate(total), state.uncounted ? '' : 'spark'],
    ['Without endpoints', count(troubled), troubled ? 'bad' : ''],
    ['Last sync', !last ? 'none' : last.error ? 'failed' : duration(last.elapsed_seconds), last?.error ? 'bad' : ''],
  ];
  const box = byId('tiles');
  if (!box.children.length) {
    box.append(...tiles.map(([title, , kind]) => el('div', {}, el('dt', {}, title), el('dd'), kind === 'spark' ? sparkline() : '')));
  }
  tiles.forEach(([, value, tone], at) => {
    const cell = box.children[at].querySelector('dd');
    setText(cell, value);
    cell.dataset.tone = tone ?? '';
  });
  const path = box.querySelector('.spark path');
  if (path) {
    const top = Math.max(...state.history, 1);
    const points = state.history.map((it, at) => `${at + 60 - state.history.length},${(30 - (it / top) * 26).toFixed(1)}`);
    path.setAttribute('d', points.length > 1 ? `M${points.join('L')}` : '');
  }
}

function sparkline() {
  return draw('svg', { class: 'spark', viewBox: '0 0 59 31', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, draw('path'));
}
