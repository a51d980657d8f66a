// One Service: its facts, and each port as a picture and as tables.

/** Ports shown; `sluice status --service` shows all. */
const PORTS = 20;

const opened = { name: null, detail: null, counted: null, rates: null, width: 0 };

/** Asks for the Service that is open. */
async function pollService() {
  const { name } = opened;
  const query = `?name=${encodeURIComponent(name)}`;
  const [detail, connections] = await Promise.all([
    ask(`/api/service${query}`), state.uncounted ? { isNew: false } : ask(`/api/connections${query}`)]);
  if (name !== opened.name) {
    return;
  }
  if (connections.isNew && Array.isArray(connections.data)) {
    const totals = new Map();
    for (const port of connections.data) {
      for (const it of port.endpoints) {
        totals.set(keyOf(port, it.endpoint), it.connections);
      }
    }
    opened.rates ??= new Rates();
    opened.rates.take(totals, performance.now());
  }
  const box = byId('service-box');
  if (detail.isNew || connections.isNew || !box.children.length || opened.width !== box.clientWidth) {
    opened.detail = detail.data;
    showService();
  }
}

const keyOf = (port, endpoint) => `${port.port} ${port.protocol} ${port.family} ${endpoint}`;

function openService(name) {
  if (opened.name !== name) {
    Object.assign(opened, { name, detail: null, rates: null });
    forget('/api/service?');
    forget('/api/connections?');
    byId('service-box').replaceChildren(el('p', { class: 'quiet' }, 'Asking the agent …'));
  }
  setText(byId('service-title'), name);
}

function showService() {
  const { detail } = opened;
  const { summary } = detail;
  const box = byId('service-box');
  opened.width = box.clientWidth;
  const header = el('div', { class: 'panel' }, facts([
    ['Type', summary.kind],
    ['Endpoints', summary.isDead ? badge('no endpoint answers', 'bad') : `${count(summary.ready)} of ${count(summary.endpoints)} ready`],
    ['Internal traffic policy', detail.internalPolicy],
    ['External traffic policy', detail.externalPolicy],
    ['Session affinity', detail.affinitySeconds === null ? 'none' : `ClientIP, ${detail.affinitySeconds} s`],
  ]), summary.issues.length ? el('ul', { class: 'list issues' }, summary.issues.map((it) => el('li', {}, it))) : null);
  const ports = detail.ports.slice(0, PORTS).map((port) => portPanel(detail, port));
  const rest = detail.ports.length - ports.length;
  replace(box, el('div', { class: 'stack' }, header, ports,
    rest > 0 ? el('p', { class: 'quiet' }, `And ${plural(rest, 'port')} more: `, el('code', {}, `sluice status --service ${summary.name}`)) : null,
    slices(detail)));
}

function portPanel(detail, port) {
  const counted = opened.rates?.totals && new Map(port.endpoints.map((it) => [it.address, opened.rates.totals.get(keyOf(port, it.address)) ?? 0]));
  const shares = sharesOf(detail, port, counted);
  const name = `${port.port ? `${port.port} ` : ''}${port.number}/${port.protocol}`;
  const width = Math.max(byId('service-box').clientWidth - (window.innerWidth > 736 ? 42 : 32), 280);
  const to = port.frontends.length ? `${detail.summary.name}:${port.port || port.number}` : detail.summary.name;
  const rows = port.endpoints.map((it) => [
    el('span', { class: 'mono' }, it.address), it.pod ?? '–',
    `${it.node ?? '–'}${it.local ? ' (this node)' : ''}`, it.zone ?? '–', stateOf(it),
    it.included ? shares.textsOf(it.address).join(', ') : '–',
    opened.rates ? rate(opened.rates.of(keyOf(port, it.address))) : '–',
  ]);
  const key = `${name} ${port.family}`;
  return el('div', { class: 'panel' },
    el('div', { class: 'head' }, el('h3', {}, name), el('span', { class: 'quiet' }, port.family),
      el('a', { href: `#explain?${new URLSearchParams({ from: 'node', to })}`, 'data-key': `explain ${key}` }, `Explain a packet to ${name}`)),
    picture(detail, port, counted, width),
    el('p', { class: 'quiet' }, shares.isCounted ? 'Shares are those of the connections since the agent started.'
      : shares.isSplit ? 'Shares are equal parts of what each side may reach: connections are counted for both sides together.'
      : `Shares are equal parts: ${state.uncounted ?? 'no connection has been counted yet'}.`),
    details(`endpoints ${key}`, `Endpoints as a table (${count(port.endpoints.length)})`,
      () => table(`Endpoints of ${name}, ${port.family}`, [['Endpoint'], ['Pod'], ['Node'], ['Zone'], ['State'], ['Share', 'number'], ['New/s', 'number']], rows)),
    details(`frontends ${key}`, `Frontends as a table (${count(port.frontends.length)})`,
      () => table(`Frontends of ${name}, ${port.family}`, [['Frontend'], ['From']], port.frontends.map((it, at) => [el('span', { class: 'mono' }, it), port.roles[at] ?? '']))));
}

function stateOf(endpoint) {
  const word = endpoint.ready ? badge('ready', 'good')
    : endpoint.terminating ? badge(endpoint.serving ? 'terminating, serving' : 'terminating', 'warn') : badge('not ready', 'bad');
  return el('span', {}, word, endpoint.reason ? ` ${endpoint.reason}` : '');
}

function details(key, title, content) {
  return el('details', { 'data-key': key }, el('summary', { 'data-key': `summary ${key}` }, title), content());
}

function slices(detail) {
  const rows = detail.slices.map((it) => [el('span', { class: 'mono' }, it.name), it.addressType, it.ports.join(', '), `${count(it.ready)}/${count(it.endpoints)}`]);
  return el('div', { class: 'panel' }, details('slices', `EndpointSlices (${count(rows.length)})`,
    () => table('EndpointSlices', [['Slice'], ['Addresses'], ['Ports'], ['Ready', 'number']], rows)));
}
