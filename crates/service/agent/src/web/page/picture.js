// One Service port as a picture: clients, frontends, endpoints by node.

/** Endpoints and frontends drawn; tables have all. */
const DRAWN_ENDPOINTS = 24;
const DRAWN_FRONTENDS = 8;

/** From this width on clients have a column of their own. */
const WIDE = 640;

/** Cuts the middle out of a text that is too long. */
function cut(text, most) {
  const half = Math.max(Math.floor((most - 1) / 2), 3);
  return text.length <= most ? text : `${text.slice(0, half)}…${text.slice(-half)}`;
}

/** Who dials a frontend. */
const sideOf = (role) => (role === 'ClusterIP' ? 'inside' : 'outside');

const CLIENTS = { inside: 'Pods and nodes', outside: 'Other machines' };

/** Whether clients of a side may be sent to an endpoint. */
function reaches(detail, side, endpoint) {
  const policy = side === 'inside' ? detail.internalPolicy : detail.externalPolicy;
  return endpoint.included && (policy === 'Cluster' || endpoint.local);
}

/**
 * The share of each endpoint, and where it comes from: new connections as counted, or equal parts of those that each side's
 * policy admits. `counted` has totals by address, `null` where nobody counts. They are those of all sides together, so they say
 * nothing of sides that differ.
 */
function sharesOf(detail, port, counted) {
  const used = port.endpoints.filter((it) => it.included);
  const sides = [...new Set(port.roles.map(sideOf))].sort();
  const planned = new Map((sides.length ? sides : ['inside']).map((side) => {
    const of = used.filter((it) => reaches(detail, side, it));
    return [side, new Map(of.map((it) => [it.address, 1 / of.length]))];
  }));
  const isSplit = used.some((it) => new Set([...planned.values()].map((of) => of.get(it.address))).size > 1);
  const all = counted ? used.reduce((sum, it) => sum + (counted.get(it.address) ?? 0), 0) : 0;
  const total = isSplit ? 0 : all;
  const one = (address, side) => (total ? (counted.get(address) ?? 0) / total : planned.get(side)?.get(address) ?? 0);
  /** `33 %`, or what clients of each side give it where these differ. */
  const textsOf = (address) => {
    const parts = [...planned.keys()].map((side) => [side, percent(one(address, side))]);
    return new Set(parts.map(([, it]) => it)).size === 1 ? [parts[0][1]] : parts.map(([side, it]) => `${it} ${side}`);
  };
  return { one, textsOf, isCounted: total > 0, isSplit: isSplit && all > 0 };
}

const percent = (share) => `${(share * 100).toFixed(0)} %`;

/** The picture in words. */
function words(detail, port, shares) {
  const frontends = port.frontends.map((it, at) => `${port.roles[at]} ${it}`).join(', ') || 'no frontend';
  const used = port.endpoints.filter((it) => it.included);
  const each = used.slice(0, DRAWN_ENDPOINTS).map((it) => `${it.address}${it.node ? ` on ${it.node}` : ''}, ${shares.textsOf(it.address).join(', ')}`);
  return `Clients of ${frontends} are sent to ${plural(used.length, 'endpoint')} of ${count(port.endpoints.length)}`
    + `${each.length ? `: ${each.join('; ')}` : ''}. Shares are ${shares.isCounted ? 'those of the connections counted' : 'equal'}.`;
}

function picture(detail, port, counted, width) {
  const shares = sharesOf(detail, port, counted);
  const isWide = width >= WIDE;
  const frontends = port.frontends.slice(0, DRAWN_FRONTENDS).map((text, at) => ({ text, role: port.roles[at] ?? '', side: sideOf(port.roles[at]) }));
  const order = (it) => `${it.node === null ? 1 : 0} ${it.local ? 0 : 1} ${it.zone ?? ''} ${it.node ?? ''}`;
  const endpoints = [...port.endpoints]
    .sort((a, b) => (b.included - a.included))
    .slice(0, DRAWN_ENDPOINTS)
    .sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
  const left = { x: isWide ? 150 : 0, w: isWide ? Math.min(260, width * 0.3) : width * 0.4 };
  const right = { w: isWide ? Math.min(330, width * 0.36) : width * 0.52 };
  right.x = width - right.w;
  const column = frontendColumn(frontends, left, isWide);
  const nodes = endpointColumn(endpoints, right, shares, isWide);
  const hidden = port.endpoints.length - endpoints.length + port.frontends.length - frontends.length;
  const height = Math.max(column.height, nodes.height, 60) + (hidden ? 22 : 0);
  column.shift((height - column.height) / 2);
  nodes.shift((height - nodes.height) / 2);

  const edges = [];
  for (const from of column.boxes) {
    for (const to of nodes.boxes) {
      if (reaches(detail, from.side, to.endpoint)) {
        const share = shares.one(to.endpoint.address, from.side);
        edges.push(edge(left.x + left.w, from.y, right.x + (isWide ? 8 : 4), to.y, from.side, 1 + 5 * share));
      }
    }
  }
  if (isWide) {
    for (const client of column.clients) {
      for (const from of column.boxes.filter((it) => it.side === client.side)) {
        edges.push(edge(112, client.y, left.x, from.y, client.side, 2));
      }
    }
  }
  const more = hidden ? [draw('text', { class: 'small', x: width, y: height - 6, 'text-anchor': 'end' }, `and ${count(hidden)} more in the tables below`)] : [];
  return draw('svg', { class: 'picture', role: 'img', 'aria-label': words(detail, port, shares),
    viewBox: `0 0 ${width} ${height}`, width, height }, nodes.frames, edges, column.drawn(), nodes.drawn(), more);
}

function edge(x1, y1, x2, y2, side, width) {
  const middle = (x1 + x2) / 2;
  return draw('path', { class: `edge ${side}`, 'stroke-width': width.toFixed(1), d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
}

/** Frontends below each other, those of each kind of client together. */
function frontendColumn(frontends, { x, w }, isWide) {
  const [high, gap, heading] = isWide ? [46, 10, 0] : [64, 10, 24];
  const boxes = [];
  const clients = [];
  let y = 4;
  for (const side of ['inside', 'outside']) {
    const of = frontends.filter((it) => it.side === side);
    if (of.length) {
      const top = y;
      y += heading;
      for (const it of of) {
        boxes.push({ ...it, y: y + high / 2 });
        y += high + gap;
      }
      clients.push({ side, y: isWide ? (top + y - gap) / 2 : top + 12 });
      y += 14;
    }
  }
  const letters = Math.floor((w - 20) / 7.6);
  const lines = (it) => (isWide ? [it.text, it.role] : short(it));
  const top = isWide ? -3 : -12;
  return {
    boxes, clients, height: Math.max(y - 24, 0) + 8,
    shift: (by) => [...boxes, ...clients].forEach((it) => { it.y += by; }),
    drawn: () => [
      ...clients.map((it) => client(it, isWide)),
      ...boxes.map((it) => draw('g', {}, draw('title', {}, `${it.role} ${it.text}`),
        draw('rect', { class: `box ${it.side}`, x: x + 1, y: it.y - high / 2, width: w - 2, height: high, rx: 9 }),
        lines(it).map((line, at) => draw('text', { class: at ? 'small' : 'mono', x: x + 11, y: it.y + top + at * 17 }, cut(line, letters))))),
      ...(boxes.length ? [] : [draw('text', { class: 'small', x, y: 34 }, 'No frontend')]),
    ],
  };
}

/** A frontend in short lines: `10.96.0.10`, `port 80/tcp`, `ClusterIP`. */
function short({ text, role }) {
  const [, address, port] = text.match(/^(.*)[:\s](\S+)$/) ?? [null, text, ''];
  return role === 'NodePort' ? [port, role] : [address, `port ${port}`, role];
}

/** A head and shoulders, with words. */
function client({ side, y }, isWide) {
  const [x, size] = isWide ? [96, 11] : [9, 6];
  const figure = draw('g', { class: `client ${side}` }, draw('circle', { cx: x, cy: y - size * 0.7, r: size * 0.6 }),
    draw('path', { d: `M${x - size} ${y + size}a${size} ${size} 0 0 1 ${2 * size} 0z` }));
  const text = isWide
    ? CLIENTS[side].split(' ').reduce((lines, word) => { // two lines beside the figure
      const last = lines.at(-1);
      return last && `${last} ${word}`.length <= 9 ? [...lines.slice(0, -1), `${last} ${word}`] : [...lines, word];
    }, []).map((line, at, all) => draw('text', { class: 'small', x: x - 20, y: y + 4 + (at - (all.length - 1) / 2) * 15, 'text-anchor': 'end' }, line))
    : [draw('text', { class: 'small', x: x + 12, y: y + 4 }, CLIENTS[side])];
  return draw('g', {}, figure, text);
}

/** Endpoints below each other, with a frame around those of each node. */
function endpointColumn(endpoints, { x, w }, shares, isWide) {
  const [gap, heading] = [8, 24];
  // Where the sides' shares differ, a narrow box has a line for them.
  const isSplit = endpoints.some((it) => it.included && shares.textsOf(it.address).length > 1);
  const high = isSplit && !isWide ? 64 : 46;
  const boxes = [];
  const groups = [];
  let y = 0;
  for (const endpoint of endpoints) {
    const group = groups.at(-1);
    if (!group || group.node !== endpoint.node) {
      y += group ? 16 : 0;
      groups.push({ node: endpoint.node, zone: endpoint.zone, local: endpoint.local, y, to: 0 });
      y += heading;
    }
    boxes.push({ endpoint, y: y + high / 2 });
    y += high + gap;
    groups.at(-1).to = y;
  }
  const pad = isWide ? 8 : 4;
  const frames = groups.map((it) => draw('g', {}));
  const shift = (by) => {
    boxes.forEach((it) => { it.y += by; });
    groups.forEach((it, at) => {
      const name = [it.node ?? 'outside the cluster', it.local ? 'this node' : null, it.zone].filter(Boolean).join(' · ');
      frames[at].append(draw('rect', { class: it.local ? 'here' : 'group', x: x + 1, y: it.y + by + 1, width: w - 2, height: it.to - it.y, rx: 11 }),
        draw('text', { class: 'small', x: x + 11, y: it.y + by + 17 }, draw('title', {}, name), cut(name, Math.floor((w - 20) / 6.4))));
    });
  };
  const one = ({ endpoint, y: middle }) => {
    const share = endpoint.included ? shares.textsOf(endpoint.address) : [];
    const [isLine, isTwo] = [isSplit && !isWide, isSplit && isWide];
    const top = middle - high / 2 + 20;
    const letters = (width, letter) => Math.floor((w - 2 * pad - width) / letter);
    const texts = isLine ? [share.join(', ')] : share;
    const second = endpoint.included && endpoint.ready ? endpoint.pod ?? 'ready' : endpoint.reason || 'not ready';
    return draw('g', {}, draw('title', {}, [endpoint.address, endpoint.pod, endpoint.reason].filter(Boolean).join('\n')),
      draw('rect', { class: `box ${endpoint.included ? 'used' : 'unused'}`, x: x + pad, y: middle - high / 2, width: w - 2 * pad, height: high, rx: 9 }),
      draw('text', { class: 'mono', x: x + pad + 9, y: top }, cut(endpoint.address, letters(isTwo ? 110 : isWide ? 60 : 18, 7.6))),
      draw('text', { class: 'small', x: x + pad + 9, y: top + 17 }, cut(second, letters(isLine ? 22 : isTwo ? 110 : 68, 6.6))),
      texts.map((it, at) => draw('text', { class: isSplit ? 'small' : 'share', x: x + w - pad - 9, 'text-anchor': 'end',
        y: isLine ? top + 34 : isTwo ? top + at * 17 : isWide ? middle + 4 : top + 17 }, it)));
  };
  return {
    boxes, frames, shift, height: y + 2,
    drawn: () => (boxes.length ? boxes.map(one) : [draw('text', { class: 'small', x: x + 10, y: 34 }, 'No endpoint')]),
  };
}
