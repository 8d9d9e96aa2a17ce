// The page: which view is open, its filter, and the snapshots that it shows.

import * as details from './details.js';
import { el, show } from './dom.js';
import * as filter from './filter.js';
import { grouped } from './format.js';
import { functions } from './functions.js';
import { remember } from './history.js';
import * as lists from './lists.js';
import { locks } from './locks.js';
import { overview } from './overview.js';
import * as server from './server.js';

const ALL = { overview: 'Overview', flows: 'Flows', requests: 'Requests', refused: 'Refused', locks: 'Locks', functions: 'Functions' };

const VIEWS = { overview: (_, snapshot, actions) => overview(snapshot, actions), ...lists, locks, functions };

/** How long the page waits before it asks again after the server went away. */
const AGAIN = 1000;

const THEME = 'asyncsteps-console-theme';

const KEYS = [
    ['1 \u2026 6', 'Overview, flows, requests, refused, locks, functions'],
    ['/', 'Filter'], ['j, k', 'Next row, row before'], ['Enter', 'Open the row'], ['Esc', 'Close, leave the filter'],
    ['f', 'Fold idle time in a waterfall'], ['p', 'Pause the page'], ['t', 'Dark or light'], ['?', 'These keys'],
];

const byId = (id) => document.getElementById(id);
const [main, filters, text, func, kind, cause] = ['main', 'filters', 'text', 'function', 'kind', 'cause'].map(byId);

let snapshot = null;
let isPaused = false;
/** The flows that the server found for the filter, where the snapshot has not all flows. */
let found = null;

function view() {
    const name = location.hash.replace(/^#\/?/, '');
    return Object.hasOwn(ALL, name) ? name : 'overview';
}

function go(name) {
    location.hash = `/${name}`;
}

function draw() {
    const name = view();
    document.title = `${ALL[name]} \u00b7 AsyncSteps console`;
    drawTabs(name);
    filters.hidden = !Object.hasOwn(filter.CHOICES, name);
    if (!snapshot) {
        show(main, el('p', { class: 'empty' }, 'The first snapshot is on its way\u2026'));
        return;
    }
    const shown = filtered(name);
    byId('found').textContent = shown ? `${grouped(shown.length)} shown` : '';
    show(main, el('div', { key: name, class: `view ${name}` }, VIEWS[name](shown, snapshot, { open: details.open, go, isFiltered: isFiltered() })));
}

function isFiltered() {
    return [text, func, kind, cause].some((input) => input.value);
}

/** The rows of a list. */
function filtered(name) {
    const wanted = { text: text.value, func: func.value, kind: kind.value, cause: cause.value };
    if (name === 'flows') return filter.flows(found ?? snapshot.flows.flows, wanted);
    if (name === 'requests' || name === 'refused') return filter[name](name === 'refused' ? snapshot.refused : snapshot.recent, wanted);
    return null;
}

/** Asks the server for what the filter is for, if the snapshot has only the oldest flows. */
async function ask() {
    const isPart = snapshot && snapshot.flows.all > snapshot.flows.flows.length;
    if (view() !== 'flows' || !isPart || !(func.value || cause.value)) {
        found = null;
        return;
    }
    try {
        found = (await server.flows(func.value, cause.value)).flows;
    } catch {
        // the stream tells what is wrong with the server
        found = null;
    }
}

function drawTabs(current) {
    const queued = (snapshot?.locks ?? []).reduce((sum, lock) => sum + lock.queued, 0);
    const counts = { flows: snapshot?.flows.all, requests: snapshot?.recent.length, refused: snapshot?.refused.length, locks: queued };
    show(byId('tabs'), Object.entries(ALL).map(([name, title]) =>
        el('a', { href: `#/${name}`, key: name, 'aria-current': name === current ? 'page' : undefined },
            title, counts[name] > 0 && el('span', { class: `count ${name}` }, grouped(counts[name])))));
}

/** Fills a choice, and keeps what was chosen. */
function fillChoice(select, options) {
    const wanted = JSON.stringify(options);
    if (select.dataset.options === wanted) return;
    const chosen = select.value;
    select.dataset.options = wanted;
    select.replaceChildren(...options.map(([value, title]) => new Option(title, value)));
    select.value = options.some(([value]) => value === chosen) ? chosen : '';
}

function drawChoices() {
    const choices = filter.CHOICES[view()];
    if (!choices) return;
    const { kinds, causes: [all, causes] } = choices;
    kind.hidden = !kinds;
    fillChoice(kind, Object.entries(kinds ?? { '': '' }));
    fillChoice(cause, [['', all], ...(snapshot ? causes(snapshot) : []).map((it) => [it, it.replaceAll('_', ' ')])]);
    const names = (snapshot?.functions ?? []).filter((it) => it.count > 0 || snapshot.flows.flows.some((flow) => flow.function === it.function));
    fillChoice(func, [['', 'All functions'], ...names.map((it) => [it.function, it.function])]);
}

function setState(name, title, hint = '') {
    byId('state').className = `state ${name}`;
    byId('state').textContent = title;
    byId('state').title = hint;
}

/** Whether the service should get requests. */
function drawState() {
    if (isPaused) return setState('paused', 'Paused');
    const { health: { state, readiness } } = snapshot;
    const why = readiness.reasons.map((it) => it.replaceAll('_', ' ')).join(', ');
    if (state === 'closing') return setState('closing', 'Closing', 'It takes no more requests');
    if (!readiness.ready) return setState('closing', `Not ready: ${why}`, 'It should get no requests now');
    return setState('serving', 'Ready', 'It takes requests');
}

async function take(next) {
    remember(next);
    if (isPaused) return;
    snapshot = next;
    drawState();
    drawChoices();
    await ask();
    // nothing of it is seen
    if (!document.hidden) draw();
    details.update(next);
}

async function follow() {
    for (;;) {
        let failure = 'The service does not answer. Trying again\u2026';
        try {
            await server.watch((next) => {
                byId('notice').hidden = true;
                take(next);
            });
        } catch (error) {
            if (error instanceof server.NoToken) {
                askForToken();
                return;
            }
            if (!(error instanceof TypeError)) failure = `${error.message}. Trying again\u2026`;
        }
        setState('gone', 'Disconnected');
        byId('notice').textContent = failure;
        byId('notice').hidden = false;
        await new Promise((again) => setTimeout(again, AGAIN));
    }
}

function askForToken() {
    byId('wrong').hidden = !server.hasToken();
    byId('login').hidden = false;
    main.hidden = true;
    filters.hidden = true;
    byId('token').focus();
}

byId('login').addEventListener('submit', (event) => {
    event.preventDefault();
    server.setToken(byId('token').value);
    byId('token').value = '';
    byId('login').hidden = true;
    main.hidden = false;
    follow();
});

function pause() {
    isPaused = !isPaused;
    byId('pause').setAttribute('aria-pressed', String(isPaused));
    byId('pause').textContent = isPaused ? 'Go on' : 'Pause';
    if (snapshot) drawState();
}

function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
    draw();
}

function theme() {
    const isDark = document.documentElement.dataset.theme
        ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    setTheme(isDark ? 'light' : 'dark');
}

function help() {
    const keys = byId('keys');
    show(keys, el('h1', {}, 'Keys'), el('dl', {}, KEYS.map(([key, what]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, what)])),
        el('button', { type: 'button', onclick: () => keys.close() }, 'Close'));
    keys.showModal();
}

/** Moves the focus among the rows that open. */
function move(by) {
    const rows = [...main.querySelectorAll('.opens')];
    const at = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches('input, select')) {
        if (event.key === 'Escape') event.target.blur();
        return;
    }
    if (details.isOpen() || byId('keys').open) {
        if (event.key === 'f') details.toggleFolds();
        return;
    }
    const actions = { j: () => move(1), k: () => move(-1), p: pause, t: theme, '?': help, '/': () => !filters.hidden && text.focus() };
    const named = Object.keys(ALL)[Number(event.key) - 1];
    const action = named ? () => go(named) : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
});

byId('pause').addEventListener('click', pause);
byId('theme').addEventListener('click', theme);
byId('help').addEventListener('click', help);
text.addEventListener('input', draw);
for (const input of [func, kind, cause]) input.addEventListener('input', () => ask().then(draw));
addEventListener('hashchange', () => {
    for (const input of [text, func, kind, cause]) input.value = '';
    found = null;
    drawChoices();
    draw();
});
document.addEventListener('visibilitychange', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

const kept = localStorage.getItem(THEME);
if (kept === 'dark' || kept === 'light') document.documentElement.dataset.theme = kept;
drawChoices();
draw();
follow();
