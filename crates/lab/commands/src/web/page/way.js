// Drawings as the server sends them, and the way to one Service.

const opened = { name: null, from: 'client', via: '' };

/** A drawing of the server: elements with their places. */
function picture({ width, height, title, description, elements }) {
  const shapes = elements.map(({ tag, attributes, text }) => draw(tag, Object.fromEntries(attributes), text));
  // Wider than a phone: it scrolls in its frame, and a screen reader has its words.
  return el('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': title, 'data-key': 'picture' },
    draw('svg', { class: 'drawing', role: 'img', 'aria-label': `${title}. ${description}`, viewBox: `0 0 ${width} ${height}`, width, height }, shapes));
}

/** Opens `#service/NAMESPACE/NAME?from=…&via=…`. */
function openWay(name, query) {
  const asked = { name, from: query.get('from') ?? 'client', via: query.get('via') ?? '' };
  if (asked.name !== opened.name || asked.from !== opened.from || asked.via !== opened.via) {
    Object.assign(opened, asked);
    forget('/api/way?');
    byId('way-box').replaceChildren(el('p', { class: 'quiet' }, 'Asking the lab …'));
  }
  setText(byId('service-title'), name);
}

async function pollWay() {
  const { name, from, via } = opened;
  showChoices();
  const { data, isNew } = await ask(`/api/way?${new URLSearchParams({ service: name, from, via })}`);
  if (name === opened.name && from === opened.from && via === opened.via && (isNew || !byId('way-box').querySelector('.drawing'))) {
    showWay(data);
  }
}

/** The machines of the lab as choices. A choice of somebody that is gone stays. */
function showChoices() {
  const { nodes } = state.lab.topology;
  const pods = nodes.flatMap((node) => node.pods).map((it) => `${it.namespace}/${it.name}`);
  const names = nodes.map((it) => it.name);
  choose(byId('from'), ['client', ...names, ...pods], opened.from);
  choose(byId('via'), ['', ...names], opened.via);
}

function choose(select, values, chosen) {
  const all = values.includes(chosen) ? values : [...values, chosen];
  if ([...select.options].map((it) => it.value).join() !== all.join()) {
    select.replaceChildren(...all.map((it) => el('option', { value: it }, it || 'none')));
  }
  select.value = chosen;
}

function showWay({ way, drawing }) {
  const rows = way.endpoints.map((it) => [
    el('span', { class: 'mono' }, it.address), it.pod ?? '–', it.node ?? '–', it.zone ?? '–',
    it.share === null ? '–' : `${(it.share * 100).toFixed(0)} %`, it.sees ?? '–', it.reason || '–',
  ]);
  replace(byId('way-box'), el('div', { class: 'stack' },
    el('div', { class: 'panel' }, facts([
      ['Type', way.kind], ['Client', `${way.client}, ${way.address}`], ['Dials', way.dialled], ['Rules of', way.rules?.node ?? 'nobody'],
      ['Verdict', way.rules?.reason],
    ])),
    picture(drawing),
    el('div', { class: 'panel table' }, table('Endpoints', [['Endpoint'], ['Pod'], ['Node'], ['Zone'], ['Share', 'number'], ['Sees'], ['Why']], rows))));
}

function startWay() {
  for (const name of ['from', 'via']) {
    byId(name).addEventListener('change', () => {
      const query = new URLSearchParams({ from: byId('from').value, via: byId('via').value });
      history.replaceState(null, '', `#service/${opened.name}?${query}`);
      openWay(opened.name, query);
      tick();
    });
  }
  byId('way-form').addEventListener('submit', (event) => event.preventDefault());
}
