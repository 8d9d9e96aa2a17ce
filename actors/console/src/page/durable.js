// The durable requests: which there are, what is recorded of each, and what an operator can do. Entities.

import { el } from './dom.js';
import { bytes, clock, grouped, moment, time } from './format.js';
import { card, empty, functionName, outcome, table } from './parts.js';
import * as server from './server.js';

/** The states, those first that wait for an operator. */
const STATES = {
    '': 'All', dead: 'Dead letters', paused: 'Paused', running: 'Running', parked: 'Parked', new: 'Not begun', ready: 'Between nodes', suspect: 'Suspect', ended: 'Ended',
};

/** What a state means to an operator. */
const HINTS = {
    dead: 'Its processes died too often in the middle of its steps. It goes on when it is resumed.',
    paused: 'See the reason. If it does not fit the program, deploy one that has its steps. Then resume it.',
    suspect: 'Its last process died while it ran. It runs again, beside few other such requests.',
    parked: 'It waits for a time or a signal, in no process.',
};

/** What an operator can do: to pause it, or where it waits for one the others. */
const ORDERS = { pause: 'Pause', continue: 'Resume', 'on-its-version': 'Resume on its version', again: 'Begin again' };

/** How long typing stops before the server is asked for what was typed. */
const TYPED = 200;

let state = '';
/** A uid, the key of a caller, or a user. */
let text = '';
let typed = 0;
/** Where the pages before this one began. */
let pages = [0];
let found = null;
let opened = null;
let order = null;
let failure = null;
/** Why the last order was not carried out, until there is another. */
let refusal = null;
let redraw = () => {};
let isAsking = false;
let isStale = false;

/** Asks the server for what the view shows, and draws it. */
export async function ask(draw) {
    redraw = draw;
    if (isAsking) return;
    isAsking = true;
    do {
        isStale = false;
        await askOnce();
    } while (isStale);
    isAsking = false;
    redraw();
}

/** Asks for what is wanted now, also if an answer to something else is on its way. */
function askAgain() {
    isStale = true;
    return ask(redraw);
}

async function askOnce() {
    try {
        found = await server.durable(state, pages.at(-1), text);
        if (opened) {
            const { uid } = opened.request;
            const answer = await server.durableRequest(uid);
            // another one may be open by now
            if (opened?.request.uid === uid) opened = answer ?? opened;
        }
        failure = found.error ? { text: 'The journal cannot be asked.', hint: found.error } : null;
    } catch (error) {
        failure = { text: 'The requests cannot be asked for.', hint: error.message };
    }
}

function choose(wanted, from = [0]) {
    [state, pages, opened, order, refusal] = [wanted, from, null, null, null];
    askAgain();
}

/** Looks for what was typed, when typing has stopped. */
function search(event) {
    const { value } = event.currentTarget;
    clearTimeout(typed);
    // not before: a row that is found would be closed again when typing has stopped
    typed = setTimeout(() => { text = value; choose(state); }, TYPED);
}

/** Opens a request, of which only the uid may be known; none if that is empty. */
export async function open(request) {
    [opened, order, refusal] = [request.uid ? { request, records: [], all: 0 } : null, null, null];
    history.replaceState(null, '', `#/durable${opened ? `/${request.uid}` : ''}`);
    redraw();
    scrollTo({ top: 0 });
    await askAgain();
}

async function send(name) {
    order = null;
    const { done, error } = await server.orderDurable(opened.request.uid, name).catch((it) => ({ done: false, error: it.message }));
    refusal = done ? null : { text: 'That was not done.', hint: error };
    await askAgain();
}

export function durable() {
    return [
        [failure, refusal].filter(Boolean).map((it) => empty(it.text, it.hint)),
        found?.clock_jump && el('p', { class: 'alarm' }, `The clock of the journal has jumped from ${clock(found.clock_jump.from)} to ${clock(found.clock_jump.to)}: schedules and deadlines follow it, pauses and time limits do not.`),
        opened && details(opened),
        el('div', { class: 'choices', role: 'group', 'aria-label': 'State' }, Object.entries(STATES).map(([name, title]) =>
            el('button', { type: 'button', key: name, 'aria-pressed': String(name === state), onclick: () => choose(name) }, title)),
            el('input', { type: 'search', key: 'text', placeholder: 'uid, key or user', 'aria-label': 'Search by uid, key or user', autocomplete: 'off', spellcheck: 'false', oninput: search })),
        found ? list(found) : empty('The requests are asked for\u2026'),
    ];
}

/** The entities of this process. */
export function entities({ entities: rows, all, error }) {
    if (error) return empty('The entities cannot be asked for.', error);
    const turn = (it) => [el('span', { class: it.is_done ? '' : 'tag bad', title: `${clock(it.at)}${it.is_done ? '' : ', failed'}` }, it.function), el('span', { class: 'quiet' }, ` ${time(it.took)} `)];
    const note = rows.length < all ? `${rows.length} of ${grouped(all)}, the longest queues first` : undefined;
    return card('Entities of this process', { kind: 'wide', note }, table('Entities', [
        { title: 'Entity', class: 'wide', cell: (it) => el('code', { title: it.uid }, it.name) },
        { title: 'Owner', class: 'fixed', cell: (it) => `node ${it.node}` },
        { title: 'Owned for', class: 'number', cell: (it) => it.age === undefined ? 'being claimed' : time(it.age) },
        { title: 'Turn', class: 'fixed', cell: (it) => it.is_busy ? 'in a call' : '' },
        { title: 'Queue', class: 'number', cell: (it) => grouped(it.queued) },
        { title: 'State', class: 'number', cell: (it) => bytes(it.state_bytes) },
        { title: 'Last calls', class: 'wide', cell: (it) => it.turns.map(turn) },
    ], rows, { key: (it) => it.name, nothing: empty('This process owns no entity.', 'One is owned by the process that it was called in last.') }));
}

function list({ requests, next }) {
    const turn = (title, to) => el('button', { type: 'button', onclick: () => choose(state, to) }, title);
    return [
        table('Durable requests, the oldest first', [
            { title: 'Submitted', class: 'quiet fixed', cell: (it) => moment(it.created) },
            { title: 'Function', cell: (it) => functionName(it.function) },
            { title: 'User', class: 'quiet rest', cell: (it) => it.user ?? 'anonymous' },
            { title: 'Key', class: 'key-cell rest', cell: (it) => it.parent ? ['of ', link(it.parent)] : el('span', { title: [it.key, ...it.tags].filter(Boolean).join(', ') }, [it.key, ...it.tags].filter(Boolean).join(', ')) },
            { title: 'State', cell: (it) => tag(it) },
            { title: 'Took', class: 'number', cell: (it) => it.ended !== undefined && time(it.ended - it.created) },
            { title: 'Why it waits', class: 'wide line', cell: (it) => el('span', { title: it.reason }, it.reason ?? '') },
            { title: 'Uid', class: 'quiet fixed', cell: (it) => el('code', { title: it.uid }, it.uid.slice(0, 8)) },
        ], requests, { key: (it) => it.uid, open, nothing: empty(text ? 'No request has this uid, this key or this user.' : state ? 'No request is in this state.' : 'No request was submitted, or all were trimmed.') }),
        (pages.length > 1 || next > 0) && el('div', { class: 'tools' }, pages.length > 1 && turn('Older', pages.slice(0, -1)), next > 0 && turn('Newer', [...pages, next])),
    ];
}

/** The state of a request: how it ended, or until when it waits. */
function tag({ state: name, outcome: end, due, cancelled_by: by }) {
    const kind = waits({ state: name }) ? 'bad' : name === 'suspect' ? 'warn' : name === 'running' ? 'running' : '';
    const until = name === 'parked' ? (due === undefined ? ' for a signal' : ` until ${moment(due)}`) : due !== undefined && ` goes on at ${moment(due)}`;
    return [
        name === 'ended' && end ? outcome(end) : el('span', { class: `tag ${kind}`, title: HINTS[name] }, name),
        until && el('span', { class: 'quiet' }, until), by && end !== 'success' && el('span', { class: 'quiet' }, `${end === 'Cancelled' ? '' : ' cancelled'} by ${by}`)];
}

/** A request, with what is recorded of it. */
function details({ request, running = [], records, all, kept = [], all_kept: allKept = 0, children = [] }) {
    const close = el('button', { type: 'button', key: 'close', onclick: () => open({}) }, 'Close');
    return el('section', { class: 'card', key: `opened-${request.uid}` },
        el('h2', {}, functionName(request.function ?? ''), ' ', tag(request)),
        el('p', { class: 'quiet' }, [request.uid, request.version && `version ${request.version}`, request.created && `submitted at ${moment(request.created)}`,
            request.ended && `took ${time(request.ended - request.created)}`, request.user && `for ${request.user}`, request.key && `key ${request.key}`, request.tags?.length > 0 && `tags ${request.tags.join(', ')}`].filter(Boolean).join(', '), request.parent && [', begun by ', link(request.parent)]),
        HINTS[request.state] && el('p', { class: 'hint' }, HINTS[request.state]),
        request.reason && el('p', { class: 'alarm' }, request.reason),
        running.map((it) => el('p', { class: it.running >= 60000 ? 'alarm' : 'hint', key: `runs-${it.path}` }, 'Runs: ', el('code', {}, it.path), ` attempt ${it.attempt}, since ${clock(it.since)}, for ${time(it.running)}`)),
        children.length > 0 && el('p', { class: 'hint' }, 'Began: ', children.map((it) => [link(it.uid, it.step), ' '])),
        kept.length > 0 && el('p', { class: 'hint' }, 'Done, or perhaps done, and not undone, because there is no undo: ', kept.map((path) => [el('code', { key: path }, path), ' ']), allKept > kept.length && `and ${grouped(allKept - kept.length)} more`),
        el('div', { class: 'tools' }, orders(request), close),
        all > records.length && el('p', { class: 'hint' }, `The last ${records.length} of ${grouped(all)} records.`),
        table('What is recorded', [
            { title: 'Step', class: 'wide', cell: (it) => el('code', {}, it.path) },
            { title: 'What', cell: (it) => el('span', { class: `tag ${it.what === 'failed' || it.what === 'undoes' ? 'bad' : ''}` }, it.what) },
            { title: 'Attempt', class: 'number', cell: (it) => it.attempt > 1 ? it.attempt : '' },
            { title: 'Took', class: 'number', cell: (it) => it.millis !== undefined ? time(it.millis) : '' },
            { title: 'At', class: 'quiet fixed', cell: (it) => it.at !== undefined ? clock(it.at) : '' },
            { title: 'More', class: 'wide', cell: (it) => it.text ?? '' },
            { title: '', class: 'fixed', cell: (it) => waits(request) && it.number > 0 && el('button', { type: 'button', class: 'link', title: 'Resume it without this record and those after it', onclick: () => { order = `from/${it.number}`; redraw(); scrollTo({ top: 0 }); } }, 'From here') },
        ], records, { nothing: empty('Its records are asked for\u2026') }));
}

/** Opens another request. */
function link(uid, title = uid.slice(0, 8)) {
    return el('button', { type: 'button', class: 'link', key: uid, title: uid, onclick: (event) => { event.stopPropagation(); open({ uid }); } }, title);
}

/** Whether a request waits for an operator. */
function waits({ state: name }) {
    return name === 'dead' || name === 'paused';
}

/** What can be done to a request: each with two clicks in two places. */
function orders({ state: name }) {
    const button = (key, kind, title, onclick) => el('button', { type: 'button', key, class: kind, onclick }, title);
    if (name === 'ended') return null;
    if (order) {
        const title = order === 'cancel' ? 'Cancel it, and undo what it did' : ORDERS[order] ? `${ORDERS[order]} now` : 'Resume it from that step';
        return [button('keep', '', 'No, leave it', () => { order = null; redraw(); }), button('confirm', 'danger', title, () => send(order))];
    }
    const want = (wanted) => () => { order = wanted; redraw(); };
    const orders = Object.entries(ORDERS).filter(([key]) => (key === 'pause') !== waits({ state: name }));
    return [button('cancel', 'danger', 'Cancel request', want('cancel')), orders.map(([key, title]) => button(key, '', title, want(key)))];
}
