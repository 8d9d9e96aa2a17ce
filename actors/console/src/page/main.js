// The page: which view is open, its filter, and the snapshots that it shows.

import * as details from './details.js';
import { el, show } from './dom.js';
import { grouped } from './format.js';
import { overview, remember } from './overview.js';
import * as server from './server.js';
import * as views from './views.js';

const ALL = { overview: 'Overview', flows: 'Flows', requests: 'Requests', locks: 'Locks', functions: 'Functions' };

const KINDS = {
    flows: { '': 'All states', running: 'Running', undoing: 'Undoing' },
    requests: { '': 'All outcomes', succeeded: 'Succeeded', failed: 'Failed' },
};

/** How long the page waits before it asks again after the server went away. */
const AGAIN = 1000;

const KEYS = [
    ['1 \u2026 5', 'Overview, flows, requests, locks, functions'],
    ['/', 'Filter'], ['j, k', 'Next row, row before'], ['Enter', 'Open the row'], ['Esc', 'Close, leave the filter'],
    ['f', 'Fold idle time in a waterfall'], ['p', 'Pause the page'], ['t', 'Dark or light'], ['?', 'These keys'],
];

const byId = (id) => document.getElementById(id);
const [main, filters, text, func, kind] = ['main', 'filters', 'text', 'function', 'kind'].map(byId);

let snapshot = null;
let isPaused = false;

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
    filters.hidden = !Object.hasOwn(KINDS, name);
    if (!snapshot) {
        show(main, el('p', { class: 'empty' }, 'The first snapshot is on its way\u2026'));
        return;
    }
    const filter = { text: text.value, func: func.value, kind: kind.value };
    const actions = { open: details.open, go };
    if (name === 'overview') show(main, overview(snapshot, actions));
    else {
        const found = name === 'flows' ? views.filterFlows(snapshot, filter) : name === 'requests' ? views.filterRequests(snapshot, filter) : [];
        byId('found').textContent = `${grouped(found.length)} shown`;
        show(main, views[name](found, snapshot, actions));
    }
}

function drawTabs(current) {
    const counts = { flows: snapshot?.flows.all, requests: snapshot?.recent.length };
    show(byId('tabs'), Object.entries(ALL).map(([name, title]) =>
        el('a', { href: `#/${name}`, 'data-key': `tab-${name}`, 'aria-current': name === current ? 'page' : undefined },
            title, counts[name] > 0 && el('span', { class: 'count' }, grouped(counts[name])))));
}

/** Fills a choice, and keeps what was chosen. */
function fillChoice(select, options) {
    const wanted = JSON.stringify(options);
    if (select.dataset.options === wanted) return;
    const chosen = select.value;
    select.dataset.options = wanted;
    select.replaceChildren(...options.map(([value, title]) => el('option', { value }, title)));
    select.value = options.some(([value]) => value === chosen) ? chosen : '';
}

function drawChoices() {
    fillChoice(kind, Object.entries(KINDS[view()] ?? { '': '' }));
    const names = (snapshot?.functions ?? []).filter((it) => it.count > 0 || snapshot.flows.flows.some((flow) => flow.function === it.function));
    fillChoice(func, [['', 'All functions'], ...names.map((it) => [it.function, it.function])]);
}

function setState(name, title) {
    byId('state').className = `state ${name}`;
    byId('state').textContent = title;
}

function take(next) {
    remember(next);
    if (isPaused) return;
    snapshot = next;
    setState(next.health.state, next.health.state === 'serving' ? 'Live' : 'Closing');
    drawChoices();
    draw();
    details.update(next);
}

async function follow() {
    for (;;) {
        let failure = 'The service does not answer. Trying again\u2026';
        try {
            byId('notice').hidden = true;
            await server.watch(take);
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
    setState(isPaused ? 'paused' : 'serving', isPaused ? 'Paused' : 'Live');
}

function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem('asyncsteps-console-theme', theme);
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
    const rows = [...main.querySelectorAll('tr.opens')];
    const at = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches('input, select')) {
        if (event.key === 'Escape') event.target.blur();
        return;
    }
    if (details.isOpen()) {
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
for (const input of [text, func, kind]) input.addEventListener('input', draw);
addEventListener('hashchange', () => {
    text.value = '';
    drawChoices();
    draw();
});

const kept = localStorage.getItem('asyncsteps-console-theme');
if (kept === 'dark' || kept === 'light') document.documentElement.dataset.theme = kept;
drawChoices();
draw();
follow();
