// What the lab's page shows.

const state = {
  lab: null,
  /** The first answers are shown: from now on differences are changes. */
  hasStarted: false,
  view: 'lab',
};

const VIEWS = {
  lab: { title: 'Lab', poll: async () => {} },
  services: { title: 'Services', poll: async () => {} },
  service: { title: 'Service', poll: pollWay },
  nodes: { title: 'Nodes', poll: async () => {} },
  token: { title: 'Token', poll: async () => {} },
};

/** Shows the view of the address: `#lab`, `#service/default/web?from=node-a`. */
function route() {
  const [path, query] = decodeURIComponent(location.hash.slice(1)).split(/\?(.*)/s);
  const [view, ...rest] = path.split('/');
  const known = view in VIEWS && view !== 'token' ? view : 'lab';
  if (known === 'service') {
    openWay(rest.join('/'), new URLSearchParams(query ?? ''));
  }
  const isMove = state.view !== known || byId(`view-${known}`).hidden;
  show(known);
  if (isMove) {
    byId(`${known}-title`).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  tick();
}

function showTitle() {
  const title = state.view === 'service' ? opened.name : VIEWS[state.view].title;
  document.title = `${title} · ${state.lab ? `lab ${state.lab.name}` : 'Sluice'}`;
}

async function refresh() {
  const { data, isNew } = await ask(`/api/lab?width=${pictureWidth()}`);
  if (isNew || state.lab !== data) {
    tellChanges(state.lab?.topology, data.topology);
    state.lab = data;
    showLab();
  }
  const badge = byId('state');
  badge.dataset.tone = 'good';
  setText(badge, 'running');
  state.hasStarted = true;
  await VIEWS[state.view].poll();
}

const podsOf = (topology) => [...topology.nodes.flatMap((it) => it.pods), ...topology.unscheduled];

function showLab() {
  const { name, mode, topology, drawing } = state.lab;
  const { nodes, services, refusing } = topology;
  const pods = podsOf(topology);
  setText(byId('name'), `lab ${name}`);
  setText(byId('about'), mode);
  showTitle();
  // Pods that have done their work are not to become ready.
  const going = pods.filter((it) => it.state !== 'ended');
  const ready = going.filter((it) => it.state === 'ready').length;
  // Headless Services have nothing that could answer.
  const served = services.filter((it) => it.frontends.length);
  const isSilent = (it) => it.isDead || refusing.includes(it.name);
  const dead = served.filter(isSilent).length;
  const tiles = [
    ['Nodes ready', nodes.filter((it) => it.ready).length, nodes.length],
    ['Pods ready', ready, going.length],
    ['Services that answer', served.length - dead, served.length],
  ];
  replace(byId('tiles'), ...tiles.map(([term, good, all]) => el('div', {}, el('dt', {}, term),
    el('dd', { 'data-tone': good < all ? 'warn' : null }, `${count(good)} of ${count(all)}`))));
  replace(byId('lab-picture'), picture(drawing));
  replace(byId('service-list'), table('Services', [['Service'], ['Type', 'wide'], ['Frontends', 'wide'], ['Ready', 'number'], ['Issues']], services.map((it) => [
    el('a', { href: `#service/${it.name}`, 'data-key': it.name }, breakable(it.name)), it.kind,
    el('span', { class: 'mono' }, it.frontends.join(', ')), `${count(it.ready)}/${count(it.endpoints)}`,
    [isSilent(it) ? badge('no endpoint answers', 'bad') : null, refusing.includes(it.name) ? ' nothing listens at their port ' : null,
      it.issues.join('; ')]])));
  replace(byId('node-list'), table('Nodes', [['Node'], ['State'], ['Address', 'wide'], ['Zone', 'wide'], ['Data plane'], ['Pods', 'number']], nodes.map((it) => [
    el('a', { href: `nodes/${it.name}/`, 'data-key': it.name }, it.name), badge(it.ready ? 'ready' : 'not ready', it.ready ? 'good' : 'bad'),
    el('span', { class: 'mono' }, it.addresses.join(', ')), it.zone ?? '–', it.mode, count(it.pods.length)])));
  const rows = nodes.flatMap((node) => node.pods.map((it) => [it, node.name])).concat(topology.unscheduled.map((it) => [it, '–']));
  replace(byId('pod-list'), table('Pods', [['Pod'], ['State'], ['Address', 'wide'], ['Node', 'word'], ['Services', 'wide']], rows.map(([it, node]) => [
    breakable(`${it.namespace}/${it.name}`), badge(it.state.replace('-', ' '), it.state === 'ready' ? 'good' : 'warn'),
    el('span', { class: 'mono' }, it.addresses.join(', ')), node,
    it.services.flatMap((service, at) => [at ? ', ' : '', ...breakable(service)])])));
}

/** Tells screen readers which Services have more or fewer endpoints, and which nodes come and go. */
function tellChanges(before, now) {
  if (!state.hasStarted || !before) {
    return;
  }
  const sentences = (topology) => [
    ...topology.nodes.map((it) => `${it.name} ${it.ready ? 'ready' : 'not ready'}`),
    ...topology.services.map((it) => `${it.name}: ${it.ready} of ${it.endpoints} endpoints ready`),
  ];
  const known = new Set(sentences(before));
  const news = sentences(now).filter((it) => !known.has(it));
  if (news.length) {
    announce(news.slice(0, 3).join('; '));
  }
}

function start() {
  startViews();
  startWay();
  window.addEventListener('resize', () => tick());
  route();
}

start();
