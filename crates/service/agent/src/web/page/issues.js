// Everything that is wrong, a line each.

/** Before the time since when the API server tells nothing new about a kind of objects. */
const STALE_SINCE = ': stale since ';

const isStale = ({ message }) => message.includes(STALE_SINCE);

/** Since when objects may be old; null when the source tells what changes. */
function staleSince(status) {
  const old = status.problems.find(isStale);
  return old ? old.message.split(STALE_SINCE)[1].split(': ')[0] : null;
}

function issuesOf(status) {
  return [
    ...status.problems.filter(isStale).map((it) => ['Stale', it.message, 'bad']),
    ...(status.unserved ? [['Not served', status.unserved, 'bad']] : []),
    ...(status.last_sync?.error ? [['Sync failed', status.last_sync.error, 'bad']] : []),
    ...status.refused.map((it) => ['Refused', `Service ${it.service_port} (${it.family}, ${it.protocol}): ${it.reason}`, 'bad']),
    ...status.problems.filter((it) => !isStale(it)).map((it) => ['Unreadable', it.message.startsWith(it.origin) ? it.message : `${it.origin}: ${it.message}`, 'bad']),
    ...status.issues.map((it) => [it.reason, it.message, 'warn']),
    ...status.forwarding_off.map((it) => ['Forwarding off', `${it} is 0`, 'warn']),
  ];
}

function showIssues() {
  const { status } = state;
  const all = issuesOf(status);
  const number = byId('issue-count');
  number.hidden = all.length === 0;
  setText(number, count(all.length));
  const text = JSON.stringify([all, status.unprotected]);
  if (state.issues === text) {
    return;
  }
  state.issues = text;
  const line = ([kind, message, tone]) => el('li', {}, badge(kind, tone), ` ${message}`);
  const found = all.length
    ? el('div', { class: 'panel table' }, el('ul', { class: 'list' }, all.map(line)))
    : el('p', { class: 'panel empty' }, 'Nothing is wrong.');
  const off = status.unprotected.map((it) => el('li', {}, el('code', {}, it.option), ` ${it.risk}`));
  replace(byId('issue-list'), el('div', { class: 'stack' }, found,
    off.length ? el('h3', {}, 'Protections that are off, as in kube-proxy') : null,
    off.length ? el('div', { class: 'panel table' }, el('ul', { class: 'list' }, off)) : null));
}
