// What the agent's page shows.

/** Sums of new connections a second that the line remembers. */
const HISTORY = 60;

const state = {
  status: null, startedAt: 0, services: [], rates: new Rates(), history: [], uncounted: null,
  /** The first answers are shown: from now on differences are changes. */
  hasStarted: false,
  issues: null,
  view: 'services',
};

const VIEWS = {
  services: { title: 'Services', poll: async () => {} },
  service: { title: 'Service', poll: pollService },
  nodes: { title: 'Nodes', poll: pollNodes },
  policies: { title: 'Network policies', poll: async () => {} },
  syncs: { title: 'Syncs', poll: pollSyncs },
  issues: { title: 'Issues', poll: async () => {} },
  explain: { title: 'Explain', poll: async () => {} },
  token: { title: 'Token', poll: async () => {} },
};

/** Shows the view of the address: `#service/default/web`, `#explain?from=…&to=…`. */
function route() {
  const [path, query] = decodeURIComponent(location.hash.slice(1)).split(/\?(.*)/s);
  const [view, ...rest] = path.split('/');
  const known = view in VIEWS && view !== 'token' ? view : 'services';
  if (known === 'service') {
    openService(rest.join('/'));
  }
  const isMove = state.view !== known;
  show(known);
  if (known === 'policies') {
    openPolicies(rest.join('/')).catch(showNoPolicies);
  }
  if (known === 'explain') {
    openExplain(new URLSearchParams(location.hash.split(/\?(.*)/s)[1] ?? query ?? ''));
  }
  if (isMove || known === 'service') {
    byId(`${known}-title`).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  tick();
}

function showTitle() {
  const title = state.view === 'service' ? opened.name : VIEWS[state.view].title;
  document.title = `${title} · ${state.status?.node ?? 'Sluice'}`;
}

async function refresh() {
  const nothing = { isNew: false };
  const [status, services, connections] = await Promise.all([
    ask('/api/status'), ask('/api/services'), state.uncounted ? nothing : ask('/api/connections')]);
  const pid = state.status?.pid;
  if (pid && pid !== status.data.pid) {
    // Another agent counts anew.
    Object.assign(state, { rates: new Rates(), history: [], uncounted: null });
    opened.rates = null;
  }
  if (connections.isNew) {
    takeConnections(connections.data);
  }
  const isFirst = !state.status;
  state.status = status.data;
  if (status.isNew) {
    state.startedAt = performance.now() / 1000 - status.data.uptime_seconds;
  }
  if (services.isNew) {
    tellChanges(state.services, services.data);
    state.services = services.data;
  }
  showHead();
  showIssues();
  if (state.view === 'services') {
    showTiles();
    if (services.isNew || connections.isNew || isFirst || !list.rows.size) {
      showServices();
    }
  }
  state.hasStarted = true;
  await VIEWS[state.view].poll();
}

function takeConnections({ services, uncounted }) {
  state.uncounted = uncounted ?? null;
  const note = byId('uncounted');
  note.hidden = !uncounted;
  setText(note, uncounted ? `New connections are not shown: ${uncounted}` : '');
  if (!uncounted) {
    state.rates.take(new Map(Object.entries(services)), performance.now());
    const sum = state.rates.sum();
    if (sum !== null) {
      state.history = [...state.history, sum].slice(-HISTORY);
    }
  }
}

function showHead() {
  const { status } = state;
  setText(byId('node'), status.node);
  byId('to-policies').hidden = !status.network_policy;
  const since = staleSince(status);
  const [word, tone] = !status.source_synced ? ['waiting for the first list', 'warn']
    : since ? [`stale since ${since}, rules may be old`, 'warn']
    : status.last_sync?.error ? ['sync failed', 'bad'] : status.synced ? ['in sync', 'good'] : ['writing', 'warn'];
  const badge = byId('state');
  badge.dataset.tone = tone;
  setText(badge, word);
  setText(byId('about'), `${status.mode} · version ${status.version} · up ${age(performance.now() / 1000 - state.startedAt)}`);
  showTitle();
}

/** Tells screen readers what is different. */
function tellChanges(before, now) {
  if (!state.hasStarted) {
    return;
  }
  const old = new Map(before.map((it) => [it.name, it]));
  const names = new Set(now.map((it) => it.name));
  const sentence = (all, what) => (all.length === 0 ? null : all.length <= 2 ? `${all.map((it) => it.name).join(' and ')} ${what}` : `${count(all.length)} Services ${what}`);
  const news = [
    sentence(now.filter((it) => !old.has(it.name)), 'added'),
    sentence(before.filter((it) => !names.has(it.name)), 'removed'),
    sentence(now.filter((it) => it.isDead && old.get(it.name)?.isDead === false), 'without an endpoint that answers'),
    sentence(now.filter((it) => !it.isDead && old.get(it.name)?.isDead), 'served again'),
  ];
  const text = news.filter(Boolean).join('; ');
  if (text) {
    announce(text);
  }
}

function start() {
  startServices();
  startExplain();
  startViews();
  // The lab's page leads to those of its agents, at `/nodes/NAME/`.
  byId('to-lab').hidden = !location.pathname.startsWith('/nodes/');
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target.closest?.('input, textarea, select');
    if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey && state.view !== 'token') {
      event.preventDefault();
      if (state.view !== 'services') {
        history.pushState(null, '', '#services');
        route();
      }
      byId('filter').focus();
    }
  });
  window.addEventListener('resize', () => state.view === 'service' && tick());
  route();
}

start();
