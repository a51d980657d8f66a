// The last syncs, as bars and as a table.

async function pollSyncs() {
  const { data, isNew } = await ask('/api/syncs');
  if (isNew || !byId('sync-box').children.length) {
    showSyncs(data);
  }
}

const kindOf = (sync) => (sync.error ? 'failed' : sync.full ? 'full' : 'change');
const writtenBy = (sync) => sync.added + sync.replaced + sync.deleted;

function showSyncs(syncs) {
  const box = byId('sync-box');
  if (!syncs.length) {
    replace(box, el('p', { class: 'panel empty' }, 'There was no sync yet: the agent waits for the first complete list of Services.'));
    return;
  }
  const failed = syncs.filter((it) => it.error).length;
  const longest = Math.max(...syncs.map((it) => it.elapsed_seconds));
  const summary = `${plural(syncs.length, 'sync')}, the longest took ${duration(longest)}, ${failed ? `${failed} failed` : 'none failed'}`;
  const legend = [['change', 'change'], ['full', 'compared with the kernel'], ['failed', 'failed']]
    .map(([kind, text]) => el('span', { class: kind }, el('i', { 'aria-hidden': 'true' }), text));
  const rows = [...syncs].reverse().map((it) => [
    el('time', { datetime: it.when }, local(it.when)), kindOf(it) === 'full' ? 'comparison' : 'change', duration(it.elapsed_seconds),
    count(it.added), count(it.replaced), count(it.deleted),
    it.error ? el('span', { class: 'wrong' }, it.error) : badge('written', 'good'),
  ]);
  replace(box, el('div', { class: 'stack' },
    el('div', { class: 'panel' },
      el('p', {}, summary, '. Height is duration, on a logarithmic scale.'),
      bars(syncs, summary), el('div', { class: 'legend' }, legend)),
    el('div', { class: 'panel' }, details('table', 'The syncs as a table',
      () => table('Syncs, the last one first', [['Ended'], ['Kind'], ['Duration', 'number'], ['Added', 'number'], ['Replaced', 'number'], ['Deleted', 'number'], ['Result']], rows)))));
}

/** Bars of a tenth of a millisecond and more; ten times as long is a fixed step higher. */
function bars(syncs, summary) {
  const height = (it) => Math.max(Math.log10(Math.max(it.elapsed_seconds, 1e-4) / 1e-4), 0.15);
  const top = Math.max(3.2, ...syncs.map(height));
  const step = 100 / Math.max(syncs.length, 50);
  const drawn = syncs.map((it, at) => {
    const high = (height(it) / top) * 100;
    const title = `${local(it.when)}: ${duration(it.elapsed_seconds)}, ${plural(writtenBy(it), 'object')} written${it.error ? `, failed: ${it.error}` : ''}`;
    return draw('rect', { class: kindOf(it), x: at * step + step * 0.1, y: 100 - high, width: step * 0.8, height: high }, draw('title', {}, title));
  });
  const marks = [1, 2, 3, 4, 5].filter((it) => it < top).map((it) => ({ share: (it / top) * 100, text: duration(10 ** (it - 4)) }));
  const lines = marks.map(({ share }) => draw('line', { x1: 0, x2: 100, y1: 100 - share, y2: 100 - share }));
  const labels = marks.map(({ share, text }) => {
    const label = el('span', { 'aria-hidden': 'true' }, text);
    label.style.bottom = `${share}%`;
    return label;
  });
  return el('div', { class: 'scale' }, labels,
    draw('svg', { class: 'chart', role: 'img', 'aria-label': `Durations: ${summary}`, viewBox: '0 0 100 100', preserveAspectRatio: 'none' }, lines, drawn));
}

/** A time of the agent in the browser's zone. */
const local = (when) => new Date(when).toLocaleString([], { dateStyle: 'short', timeStyle: 'medium' });
