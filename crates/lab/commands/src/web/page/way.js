// Drawings as the server sends them, and the way to one Service.

const opened = { name: null, from: 'client', via: '', port: '' };

/** How wide a picture may be, in pixels: it has a frame. */
const pictureWidth = () => Math.max(byId('main').clientWidth - 40, 264);

/** A drawing of the server: elements with their places. */
function picture({ width, height, title, description, elements }) {
  const shapes = elements.map(({ tag, attributes, text }) => draw(tag, Object.fromEntries(attributes), text));
  // A screen reader has its words.
  return el('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': title, 'data-key': 'picture' },
    draw('svg', { class: 'drawing', role: 'img', 'aria-label': `${title}. ${description}`, viewBox: `0 0 ${width} ${height}`, width, height }, shapes));
}

/** Whether a way is still the one that is asked for. */
const isOpened = (asked) => Object.entries(asked).every(([name, value]) => opened[name] === value);

/** Opens `#service/NAMESPACE/NAME?from=…&via=…&port=…`. */
function openWay(name, query) {
  const asked = { name, from: query.get('from') ?? 'client', via: query.get('via') ?? '', port: query.get('port') ?? '' };
  if (!isOpened(asked)) {
    Object.assign(opened, asked);
    forget('/api/way?');
    byId('way-box').replaceChildren(el('p', { class: 'quiet' }, 'Asking the lab …'));
  }
  setText(byId('service-title'), name);
}

async function pollWay() {
  const asked = { ...opened };
  const { name, ...rest } = asked;
  showChoices();
  const { data, isNew } = await ask(`/api/way?${new URLSearchParams({ service: name, ...rest, width: pictureWidth() })}`);
  if (isOpened(asked) && (isNew || !byId('way-box').querySelector('.drawing'))) {
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

/** The ports of the Service; the choice is there where it has several. */
function showPorts(ports) {
  byId('port-box').hidden = ports.length < 2;
  choose(byId('port'), ports, opened.port || (ports[0] ?? ''));
}

function choose(select, values, chosen) {
  const all = values.includes(chosen) ? values : [...values, chosen];
  if ([...select.options].map((it) => it.value).join() !== all.join()) {
    select.replaceChildren(...all.map((it) => el('option', { value: it }, it || 'none')));
  }
  select.value = chosen;
}

function showWay({ way, drawing }) {
  showPorts(way.ports);
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
    el('div', { class: 'panel table' }, table('Endpoints', [['Endpoint'], ['Pod'], ['Node', 'wide word'], ['Zone', 'wide word'], ['Share', 'number'], ['Sees', 'wide'], ['Why', 'wide']], rows))));
}

function startWay() {
  for (const name of ['from', 'via', 'port']) {
    byId(name).addEventListener('change', () => {
      const query = new URLSearchParams({ from: byId('from').value, via: byId('via').value, port: byId('port').value });
      history.replaceState(null, '', `#service/${opened.name}?${query}`);
      openWay(opened.name, query);
      tick();
    });
  }
  byId('way-form').addEventListener('submit', (event) => event.preventDefault());
}
