// Who may talk to whom, by the network policies of the cluster.

const EXTENTS = { all: ['everything', 'good'], some: ['some', 'warn'], none: ['nothing', 'bad'], '-': ['–', 'quiet'] };

/** What the view says in place of a picture that is too large, and where no policy is enforced. */
function showNoPolicies(error) {
  if (error.status === 404 || error.status === 422) {
    replace(byId('policy-box'), el('p', { class: 'panel empty' }, error.message));
  } else {
    fail(error);
  }
}

/** Draws the namespaces, and the pods of one: `#policies/shop`. */
async function openPolicies(namespace) {
  const box = byId('policy-box');
  const { data } = await ask(`/api/policy/matrix?namespace=${encodeURIComponent(namespace)}`);
  const head = [['From'], ...data.namespaces.map((it) => [it])];
  const rows = data.rows.map((cells, at) => [
    el('a', { href: `#policies/${data.namespaces[at]}`, 'data-key': data.namespaces[at] }, data.namespaces[at]),
    ...cells.map((it) => badge(...EXTENTS[it]))]);
  const lines = data.pods.map((it) => [
    el('span', { class: 'mono' }, it.from.join(', ')), el('span', { class: 'mono' }, it.to.join(', ')),
    it.everything ? badge(...EXTENTS.all) : it.allowed.length ? it.allowed.join(', ') : badge(...EXTENTS.none)]);
  replace(box, el('div', { class: 'stack' },
    el('div', { class: 'panel' }, table('What pods of a namespace may send to pods of others', head, rows)),
    namespace ? el('div', { class: 'panel' },
      el('h3', {}, `Pods of ${namespace}`), table(`What pods may send to and from ${namespace}`, [['From'], ['To'], ['Allowed']], lines),
      data.left_out ? el('p', { class: 'quiet' }, `And ${count(data.left_out)} more.`) : '') : ''));
}
