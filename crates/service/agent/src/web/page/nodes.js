// The nodes by zone, each with its endpoints.

async function pollNodes() {
  const { data, isNew } = await ask('/api/nodes');
  if (isNew || !byId('node-list').children.length) {
    showNodes(data);
  }
  // The endpoints of nodes that are open.
  const open = [...byId('node-list').querySelectorAll('details[open]')];
  await Promise.all(open.map(showNode));
}

function showNodes(nodes) {
  const zones = new Map();
  for (const node of nodes) {
    const zone = node.zone ?? '';
    zones.set(zone, [...(zones.get(zone) ?? []), node]);
  }
  const sorted = [...zones].sort(([a], [b]) => (a === '' ? 1 : b === '' ? -1 : a < b ? -1 : 1));
  const box = byId('node-list');
  const lists = new Map([...box.querySelectorAll('details')].map((it) => [it.dataset.key, it.lastElementChild]));
  replace(box, ...sorted.map(([zone, all]) => () => el('div', { class: 'zone' },
    el('h3', {}, zone ? `Zone ${zone}` : zones.size > 1 ? 'No zone known' : 'All nodes'),
    el('div', { class: 'cards' }, all.map((it) => card(it, lists.get(it.name || '-')))))));
  for (const it of box.querySelectorAll('details')) {
    it.addEventListener('toggle', () => it.open && showNode(it).catch(fail));
  }
}

function card(node, list) {
  const name = node.name || 'outside the cluster';
  const most = el('details', { 'data-key': node.name || '-' },
    el('summary', { 'data-key': `summary ${node.name}` }, 'Endpoints', el('span', { class: 'unseen' }, ` on ${name}`)),
    list ?? el('div', {}));
  return el('div', { class: 'panel card' },
    el('div', { class: 'head' }, el('h4', {}, name), node.this ? badge('this node', 'good') : null, node.leaving ? badge('leaving', 'warn') : null),
    facts([
      ['Endpoints ready', readiness(node.ready, node.endpoints, node.endpoints > 0 && node.ready === 0)],
      ['Services', count(node.services)],
      ['Addresses', node.addresses.length ? el('span', { class: 'mono' }, node.addresses.join(', ')) : null],
    ]),
    node.endpoints ? most : null);
}

async function showNode(element) {
  const name = element.dataset.key === '-' ? '' : element.dataset.key;
  const list = element.lastElementChild;
  const { data, isNew } = await ask(`/api/node?name=${encodeURIComponent(name)}`);
  if (!isNew && list.children.length) {
    return;
  }
  const rows = data.slice(0, 500).map((it) => [
    el('a', { href: `#service/${it.service}`, 'data-key': `${it.service} ${it.address}` }, it.service),
    el('span', { class: 'mono' }, it.address), it.ports.join(', '), it.pod ?? '–', stateOf({ ...it, reason: '' })]);
  replace(list, table(`Endpoints on ${name || 'no node'}`, [['Service'], ['Address'], ['Ports'], ['Pod'], ['State']], rows),
    data.length > rows.length ? el('p', { class: 'quiet' }, `And ${count(data.length - rows.length)} more.`) : '');
}
