// What happens to a packet: the form, and the answer in steps.

const VERDICTS = {
  balance: ['goes to an endpoint', 'good'],
  drop: ['dropped', 'bad'],
  reject: ['refused', 'bad'],
  'not-service': ['not of a Service', 'quiet'],
};

function startExplain() {
  byId('explain-form').addEventListener('submit', (event) => {
    event.preventDefault();
    const words = new URLSearchParams();
    for (const name of ['from', 'to', 'interface']) {
      const value = byId(name).value.trim();
      if (value) {
        words.set(name, value);
      }
    }
    const hash = `#explain?${words}`;
    if (location.hash === hash) {
      explainPacket(words);
    } else {
      location.hash = hash;
    }
  });
}

/** The question of the address bar, if there is one. */
function openExplain(words) {
  for (const name of ['from', 'to', 'interface']) {
    byId(name).value = words.get(name) ?? byId(name).value;
  }
  if (words.get('from') && words.get('to')) {
    explainPacket(words);
  }
}

async function explainPacket(words) {
  const box = byId('explanation');
  try {
    const { data } = await ask(`/api/explain?${words}`);
    box.replaceChildren(explanation(data));
  } catch (error) {
    if (error.status === 401) {
      askForToken();
      return;
    }
    box.replaceChildren(el('p', { class: 'banner' }, error.message));
  }
}

function explanation(answer) {
  const [verdict, tone] = VERDICTS[answer.verdict] ?? [answer.verdict, 'quiet'];
  const hit = answer.service;
  const step = (title, ...text) => el('li', {}, el('strong', {}, title), ...text);
  const steps = [
    step('The packet', `${answer.protocol.toUpperCase()} from ${answer.source} to ${answer.destination}, `,
      answer.interface ? `through ${answer.interface} to ${answer.node}` : `on ${answer.node}`),
  ];
  if (hit) {
    steps.push(
      step('The frontend', `${hit.frontend}, the ${hit.role} of Service `, serviceLink(hit.port)),
      step('The client', hit.clientReason),
      step('The traffic policy', hit.policy));
    if (hit.sourceRanges) {
      steps.push(step('Source ranges', `${hit.sourceRanges.admitted ? 'admit' : 'do not admit'} the client: ${hit.sourceRanges.allowed.join(', ') || 'nobody may connect'}`));
    }
    if (hit.topology) {
      steps.push(step('Topology', hit.topology));
    }
    if (hit.affinitySeconds !== null) {
      steps.push(step('Session affinity', `The client stays with its endpoint for ${hit.affinitySeconds} s`));
    }
    steps.push(step('The source address', hit.masqueradeReason));
  }
  answer.notes.forEach((it) => steps.push(step('Note', it)));
  steps.push(step('The verdict', answer.reason));
  const members = hit?.endpoints ?? [];
  return el('div', { class: 'panel stack' },
    el('h3', { class: 'verdict' }, 'This packet: ', badge(verdict, tone)),
    el('ol', { class: 'steps' }, steps),
    members.length ? table('Endpoints and whether this client may be sent there',
      [['Endpoint'], ['May be chosen'], ['Pod'], ['Node'], ['Sees as its client']],
      members.map((it) => [el('span', { class: 'mono' }, it.address),
        it.included ? badge('yes', 'good') : el('span', {}, badge('no'), ` ${it.reason}`),
        it.pod ?? '–', it.node ?? '–', !it.included ? '–' : it.masqueraded ? 'the node' : 'the client'])) : null);
}

function serviceLink(port) {
  return el('a', { href: `#service/${port.split(':')[0]}` }, port);
}
