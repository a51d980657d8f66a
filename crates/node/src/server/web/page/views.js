// The views of a page: which of them is seen, when the server is asked, and what happens without an answer.
//
// The page itself has `VIEWS` (`service` is part of `services`), `state`, `route()`, `refresh()` and `showTitle()`.

/** Between two questions. An answer that takes long is asked for less often: the server has other work. */
const PERIOD = 1000;
const SHARE_OF_THE_SERVER = 10;
/** The longest pause, however slow server and browser were once. */
const LONGEST = 10000;

function show(view) {
  state.view = view;
  for (const name of Object.keys(VIEWS)) {
    byId(`view-${name}`).hidden = name !== view;
  }
  const current = view === 'service' ? 'services' : view;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === `#${current}`) {
      link.setAttribute('aria-current', 'page');
    } else {
      link.removeAttribute('aria-current');
    }
  }
  showTitle();
}

let timer = null;
let isAsking = false;
let isAskedAgain = false;

/** Asks for everything on the screen, and again after a while. A tab that nobody sees asks nothing. */
async function tick() {
  if (isAsking) {
    isAskedAgain = true;
    return;
  }
  clearTimeout(timer);
  if (document.hidden || state.view === 'token') {
    return;
  }
  isAsking = true;
  const began = performance.now();
  let pause = PERIOD;
  try {
    await refresh();
    byId('banner').hidden = true;
    const took = performance.now() - began;
    pause = Math.min(Math.max(PERIOD, took * SHARE_OF_THE_SERVER), LONGEST) - Math.min(took, PERIOD);
  } catch (error) {
    // It may have waited for a server that had no work for it at all.
    fail(error);
  }
  isAsking = false;
  if (isAskedAgain) {
    isAskedAgain = false;
    tick();
  } else {
    timer = setTimeout(tick, pause);
  }
}

/** Shows why there is no answer. What was last known stays on the screen. */
function fail(error) {
  if (error.status === 401) {
    askForToken();
    return;
  }
  const banner = byId('banner');
  banner.hidden = false;
  setText(banner, state.hasStarted && error.status === 0 ? `No answer: ${error.message}. What you see is from before.` : error.message);
  if (error.status === 0) {
    byId('state').dataset.tone = 'bad';
    setText(byId('state'), 'no answer');
  }
}

function askForToken() {
  if (state.view === 'token') {
    return;
  }
  byId('token-wrong').hidden = !sessionStorage.getItem(TOKEN);
  sessionStorage.removeItem(TOKEN);
  show('token');
  byId('token').focus();
}

function startViews() {
  byId('token-form').addEventListener('submit', (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, byId('token').value.trim());
    byId('token').value = '';
    route();
  });
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault();
    byId('main').focus();
  });
  document.addEventListener('visibilitychange', () => document.hidden || tick());
  window.addEventListener('hashchange', route);
}
