// One request: what it waits for, and the waterfall of its steps, live while it runs.

import { el, show } from './dom.js';
import { clock, shortPlace, stepName, time } from './format.js';
import { wait } from './lists.js';
import { durableLink, functionName, lockName, outcome, path } from './parts.js';
import * as server from './server.js';
import { slowest, waterfall } from './waterfall.js';

const dialog = document.getElementById('details');
let opened = null;
let folds = true;

/** Opens a request, in flight or over. Of the holder of a lock little more than its number is known. */
export function open(request) {
    if (!request.number) return;
    const state = request.outcome ? undefined : 'running';
    opened = { number: request.number, request: { state, ...request }, steps: null, isAsked: false, isUnknown: false, cancel: null };
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    setAddress(request.number);
    draw();
    ask();
    if (!request.function) lookUp();
}

export function close() {
    dialog.close();
}

/** Has the address of the page name the request that is open, so that it can be kept and passed on. */
function setAddress(number) {
    const [view] = location.hash.replace(/^#\/?/, '').split('/');
    history.replaceState(null, '', `#/${view || 'overview'}${number ? `/${number}` : ''}`);
}

/** Asks for a request of which only the number is known: it may be over, and not among the newest. */
async function lookUp() {
    const asked = opened;
    try {
        const [over] = await server.recent({ number: asked.number });
        if (over && asked === opened) asked.request = over;
    } catch (error) {
        asked.failure = error.message;
    }
    if (asked === opened) draw();
}

export function isOpen() {
    return dialog.open;
}

export function toggleFolds() {
    folds = !folds;
    draw();
}

dialog.addEventListener('close', () => {
    opened = null;
    // another view may have been opened from here
    if (Number(location.hash.split('/')[2])) setAddress(0);
});
dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
});

/** Follows the request in a new snapshot. */
export function update(snapshot) {
    if (!opened) return;
    const same = (it) => it.number === opened.number;
    const flow = snapshot.flows.flows.find(same);
    const over = snapshot.recent.find(same);
    const wasRunning = isRunning(opened.request);
    // of many flows the snapshot has the oldest: others are in flight as long as the server knows them
    const isPart = snapshot.flows.all > snapshot.flows.flows.length;
    const other = wasRunning && isPart && !opened.isUnknown ? opened.request : undefined;
    opened.request = over ?? flow ?? other ?? { ...opened.request, state: undefined };
    if (wasRunning) ask();
    else draw();
}

function isRunning(request) {
    return request.state !== undefined;
}

async function ask() {
    const asked = opened;
    if (!asked || asked.isAsked) return;
    asked.isAsked = true;
    try {
        const steps = await server.steps(asked.number);
        asked.isUnknown = steps === null;
        asked.steps = steps ?? asked.steps;
    } catch (error) {
        asked.failure = error.message;
    }
    asked.isAsked = false;
    if (asked === opened) draw();
}

async function cancel() {
    const asked = opened;
    asked.cancel = 'sent';
    draw();
    try {
        if (!(await server.cancel(asked.number))) asked.failure = 'There was nothing left to cancel.';
    } catch (error) {
        asked.failure = error.message;
        asked.cancel = null;
    }
    if (asked === opened) draw();
}

/** Asks whether a request is to be cancelled. */
function setCancel(stage) {
    opened.cancel = stage;
    draw();
}

/** How to cancel a request: with two clicks in two places, and not while it is undone, which nothing ends. */
function ending({ request, cancel: stage }) {
    const button = (key, kind, title, onclick) => el('button', { type: 'button', key, class: kind, onclick }, title);
    if (request.state === 'undoing') return el('span', { class: 'quiet' }, 'What it did is undone');
    if (stage === 'sent') return el('span', { class: 'quiet' }, 'Cancelling\u2026');
    if (stage !== 'asked') return button('cancel', 'danger', 'Cancel request', () => setCancel('asked'));
    return [button('confirm', 'danger', 'Cancel it, and undo what it did', cancel), button('keep', '', 'No, let it run on', () => setCancel(null))];
}

function draw() {
    if (!opened) return;
    const { request, steps, failure, isUnknown } = opened;
    const running = isRunning(request);
    const state = running ? el('span', { class: `tag ${request.state}` }, request.state)
        : request.outcome ? outcome(request.outcome) : el('span', { class: 'tag' }, 'over');
    const close = el('button', { type: 'button', key: 'close', title: 'Close (Esc)', onclick: () => dialog.close() }, 'Close');
    const end = running && ending(opened);
    const fold = el('button', { type: 'button', key: 'fold', 'aria-pressed': String(folds), title: 'Fold stretches in which nothing happens (f)', onclick: toggleFolds }, 'Fold idle time');
    show(dialog,
        el('header', {},
            el('div', {}, el('h1', {}, functionName(request.function ?? '')), facts(request, running, state)),
            el('div', { class: 'tools' }, end, fold, close)),
        failure && el('p', { class: 'alarm' }, failure),
        running && waits(request),
        steps ? [summary(steps, running), waterfall(steps, { folds, running })] : el('p', { class: 'empty' }, noSteps(request, isUnknown)),
        steps?.lost > 0 && el('p', { class: 'quiet' }, `${steps.lost} events in the middle were left out.`));
}

/** Why there is no waterfall. */
function noSteps(request, isUnknown) {
    if (!isUnknown) return 'Its steps are asked for\u2026';
    if (isRunning(request)) return 'It has no steps yet.';
    return 'It is over, and is not kept: it was neither slow nor failed, or others came after it.';
}

function facts(request, running, state) {
    const items = [
        ['No.', request.number],
        ['User', request.user ?? 'anonymous'],
        running ? ['Age', time(request.age)] : ['Took', time(request.total)],
        request.arrived && ['Arrived', clock(request.arrived)],
        request.queued !== undefined && ['Queued', time(request.queued)],
        running && request.time_left !== undefined && ['Limit in', time(request.time_left)],
        request.rid && ['rid', request.rid],
        request.durable && ['Recorded', durableLink(request.durable, (uid) => { dialog.close(); location.hash = `/durable/${uid}`; })],
        request.trace && ['Trace', el('button', { type: 'button', class: 'copy', title: 'Copy the id of the trace', onclick: (event) => copy(event.currentTarget, request.trace) }, request.trace)],
    ];
    return el('dl', { class: 'details' }, state, items.filter(Boolean).map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

/** Copies a text, and says so for a moment. */
async function copy(button, text) {
    try {
        await navigator.clipboard.writeText(text);
        button.dataset.copied = 'copied';
    } catch {
        // a page over plain HTTP, or a browser that does not let it: the text is selected instead
        getSelection().selectAllChildren(button);
        button.dataset.copied = 'selected';
    }
    setTimeout(() => delete button.dataset.copied, 1500);
}

/** What each branch waits for, with the places of the steps around, and what the request holds. */
function waits(flow) {
    if (!flow.waits) return null;
    return [
        el('ul', { class: 'stack' }, flow.waits.map((it) => el('li', {},
            path(it.steps), el('div', { class: 'wait' }, wait(it, open), el('span', { class: 'quiet' }, `for ${time(flow.idle)}`)),
            it.limited_by && el('span', { class: 'quiet' }, `Its time limit is set at ${stepName(it.limited_by)} (${shortPlace(it.limited_by)}).`)))),
        flow.holds.length > 0 && el('p', { class: 'summary' }, 'It holds ', flow.holds.map((held, at) => [
            at > 0 && ', ', el('b', {}, lockName({ kind: 'a lock', ...held })), el('span', { class: 'quiet' }, ` since ${stepName(held.step)} (${shortPlace(held.step)})`)]), '.'),
    ];
}

/** Where the time went, in a sentence. */
function summary(steps, running) {
    const longest = slowest(steps.steps);
    if (!longest || !(steps.length > 0)) return null;
    const { step, own } = longest;
    const isMost = own > steps.length / 2;
    const failed = steps.steps.findLast((it) => it.error);
    return el('p', { class: 'summary' },
        running ? 'So far ' : '', isMost ? `${running ? 'most' : 'Most'} of the time went to ` : `${running ? 'the' : 'The'} longest step is `,
        named(step), `: ${time(own)} of ${time(steps.length)} `, el('span', { class: 'quiet' }, `(${shortPlace(step.place)})`),
        failed && ['. ', el('b', { class: 'error' }, failed.error), ' came from ', named(failed), el('span', { class: 'quiet' }, ` (${shortPlace(failed.place)})`)], '.');
}

/** A step, and whether it undid another one. */
function named(step) {
    return [step.flow > 0 && 'the undo ', el('b', {}, stepName(step.place))];
}
