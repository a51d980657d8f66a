// The server's answers.

const TOKEN = 'sluice-token';

/** The server gave no answer, or refused: `status` is that of HTTP, 0 without an answer. */
class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The last answer of each path, with its tag: the server sends what has changed. */
const answers = new Map();

/** The answer of a path below that of the page. `isNew` tells whether it differs from the last one. */
async function ask(path) {
  const known = answers.get(path);
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) {
    headers.Authorization = `Bearer ${token}`;
  }
  if (known) {
    headers['If-None-Match'] = known.tag;
  }
  let response;
  try {
    response = await fetch(`.${path}`, { headers, cache: 'no-store', credentials: 'omit', signal: AbortSignal.timeout(15000) });
  } catch {
    throw new Refusal(0, 'the server does not answer');
  }
  if (response.status === 304 && known) {
    return { data: known.data, isNew: false };
  }
  if (!response.ok) {
    throw new Refusal(response.status, (await response.text()).trim() || `HTTP ${response.status}`);
  }
  const data = await response.json();
  const tag = response.headers.get('ETag');
  if (tag) {
    answers.set(path, { tag, data });
  }
  return { data, isNew: true };
}

/** Forgets answers about single objects that nobody looks at. */
function forget(prefix) {
  for (const path of answers.keys()) {
    if (path.startsWith(prefix)) {
      answers.delete(path);
    }
  }
}
