// The page: which view is open, its filter, and the snapshots that it shows.

import * as details from './details.js';
import { el, show } from './dom.js';
import { durable, entities, ask as askDurable, open as openDurable } from './durable.js';
import * as filter from './filter.js';
import { grouped } from './format.js';
import { functions } from './functions.js';
import { remember } from './history.js';
import * as lists from './lists.js';
import { locks } from './locks.js';
import { nodes } from './nodes.js';
import { overview } from './overview.js';
import { ask as askPlan } from './plan.js';
import * as server from './server.js';

const ALL = { overview: 'Overview', flows: 'Flows', requests: 'Requests', refused: 'Refused', locks: 'Locks', functions: 'Functions', durable: 'Durable', entities: 'Entities', nodes: 'Nodes' };

const VIEWS = { overview: (_, snapshot, actions) => overview(snapshot, actions), ...lists, locks, functions, durable, entities: () => entities(owned), nodes: () => nodes(asked) };

/** How long the page waits before it asks again after the server went away. */
const AGAIN = 1000;

/** How long typing stops before the server is asked for what was typed. */
const TYPED = 200;

const THEME = 'asyncsteps-console-theme';

const KEYS = [
    ['1 \u2026 9', 'The views, from the left'],
    ['/', 'Filter'], ['j, k', 'Next row, row before'], ['Enter', 'Open the row'], ['Esc', 'Close, leave the filter'],
    ['f', 'Fold idle time in a waterfall'], ['p', 'Pause the page'], ['t', 'Dark or light'], ['?', 'These keys'],
];

const byId = (id) => document.getElementById(id);
const [main, filters, text, func, kind, cause] = ['main', 'filters', 'text', 'function', 'kind', 'cause'].map(byId);

let snapshot = null;
let isPaused = false;
/** What the server found for the filter of a list, where the snapshot has not all of it. */
let found = null;
/** How many times it was asked. */
let searches = 0;
/** Asks when typing has stopped. */
let typed = 0;
/** The nodes and the entities as they were asked last. */
let [asked, owned] = [null, { entities: [], all: 0 }];
let isAsking = false;

/** The views: those of nodes and of durable requests only where there are some. */
function views() {
    const has = { nodes: snapshot?.has_nodes, durable: snapshot?.has_durable, entities: snapshot?.has_durable };
    return Object.keys(ALL).filter((name) => has[name] ?? !Object.hasOwn(has, name));
}

/** The view that the address names, and the request that is open in it. */
function place() {
    const [name, id] = location.hash.replace(/^#\/?/, '').split('/');
    return { name: views().includes(name) ? name : 'overview', number: Number(id) || 0, id };
}

function view() {
    return place().name;
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
    show(main, el('div', { key: name, class: `view ${name}` }, VIEWS[name](shown, snapshot, { open: details.open, openDurable: showDurable, go, isFiltered: isFiltered() })));
}

/** Shows what is recorded of a request. */
function showDurable(uid) {
    go(`durable/${uid}`);
}

/** Opens the request that the address names. */
function openPlace() {
    const { name, number, id } = place();
    if (name === 'durable') openDurable({ uid: id });
    else if (number) details.open({ number });
    else details.close();
}

function isFiltered() {
    return [text, func, kind, cause].some((input) => input.value);
}

/** The rows of a list. */
function filtered(name) {
    const wanted = { text: text.value, func: func.value, kind: kind.value, cause: cause.value };
    if (name === 'flows') return filter.flows(found ?? snapshot.flows.flows, wanted);
    if (name === 'requests') return filter.requests(found ?? snapshot.recent, wanted);
    if (name === 'refused') return filter.refused(snapshot.refused, wanted);
    return null;
}

/** Asks the server for what the filter is for, if the snapshot has only a part of the list. */
async function ask() {
    searches += 1;
    const search = searches;
    let answer = null;
    try {
        answer = await searched(view());
    } catch {
        // the stream tells what is wrong with the server
    }
    // another filter may have been set meanwhile
    if (search === searches) found = answer;
}

/** What the server finds; `null` if there is nothing to ask it for. */
async function searched(name) {
    if (name === 'flows' && snapshot?.flows.all > snapshot?.flows.flows.length && (func.value || cause.value)) {
        return (await server.flows(func.value, cause.value)).flows;
    }
    if (name === 'requests' && snapshot?.kept > snapshot?.recent.length && isFiltered()) {
        return server.recent({ text: text.value, function: func.value, outcome: cause.value || kind.value });
    }
    return null;
}

/** Asks for the plan, the durable requests or the nodes while they are looked at. */
function askOthers() {
    if (view() === 'functions') askPlan(() => !isPaused && draw());
    if (view() === 'durable') askDurable(() => !isPaused && draw());
    if (view() === 'nodes') askFor(async () => { asked = await server.nodes(); }, (error) => { asked = { nodes: [], all: 0, error }; });
    if (view() === 'entities') askFor(async () => { owned = await server.entities(); }, (error) => { owned = { entities: [], all: 0, error }; });
}

/** Asks for the nodes or the entities, one time after the other. */
async function askFor(get, fail) {
    if (isAsking) return;
    isAsking = true;
    await get().catch(({ message }) => fail(message));
    isAsking = false;
    if (!isPaused) draw();
}

function drawTabs(current) {
    const queued = (snapshot?.locks ?? []).reduce((sum, lock) => sum + lock.queued, 0);
    const counts = { flows: snapshot?.flows.all, requests: snapshot?.recent.length, refused: snapshot?.refused.length, locks: queued };
    show(byId('tabs'), views().map((name) =>
        el('a', { href: `#/${name}`, key: name, 'aria-current': name === current ? 'page' : undefined },
            ALL[name], counts[name] > 0 && el('span', { class: `count ${name}` }, grouped(counts[name])))));
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
    const isFirst = !snapshot;
    snapshot = next;
    drawState();
    drawChoices();
    await ask();
    if (!document.hidden) askOthers();
    // nothing of it is seen
    if (!document.hidden) draw();
    details.update(next);
    if (isFirst) openPlace();
}

async function follow() {
    for (;;) {
        let failure = 'The service does not answer. Trying again\u2026';
        let hasAnswered = false;
        const begin = performance.now();
        try {
            // what was before the first snapshot
            if (!snapshot) (await server.history()).forEach(remember);
            await server.watch((next) => {
                hasAnswered = true;
                byId('notice').hidden = true;
                take(next);
            });
            // each stream has its end; one of a service that closes has nothing before it, and one that ended
            // at once made room for a newer page: pages that are too many take turns, with a pause
            if (hasAnswered) {
                if (performance.now() - begin < AGAIN) await passed(AGAIN);
                continue;
            }
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
        await passed(AGAIN);
    }
}

function passed(time) {
    return new Promise((over) => setTimeout(over, time));
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
    const named = views()[Number(event.key) - 1];
    const action = named ? () => go(named) : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
});

byId('pause').addEventListener('click', pause);
byId('theme').addEventListener('click', theme);
byId('help').addEventListener('click', help);
text.addEventListener('input', () => {
    draw();
    clearTimeout(typed);
    typed = setTimeout(() => ask().then(draw), TYPED);
});
for (const input of [func, kind, cause]) input.addEventListener('input', () => ask().then(draw));
addEventListener('hashchange', () => {
    for (const input of [text, func, kind, cause]) input.value = '';
    found = null;
    drawChoices();
    draw();
    askOthers();
    if (snapshot) openPlace();
});
document.addEventListener('visibilitychange', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

const kept = localStorage.getItem(THEME);
if (kept === 'dark' || kept === 'light') document.documentElement.dataset.theme = kept;
drawChoices();
draw();
follow();
