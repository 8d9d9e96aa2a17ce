// One request: what it waits for, and the waterfall of its steps, live while it runs.

import { el, show } from './dom.js';
import { clock, shortPlace, stepName, time } from './format.js';
import { wait } from './lists.js';
import { functionName, lockName, outcome, path } from './parts.js';
import * as server from './server.js';
import { slowest, waterfall } from './waterfall.js';

const dialog = document.getElementById('details');
let opened = null;
let folds = true;

/** Opens a request, in flight or over. Of the holder of a lock little more than its number is known. */
export function open(request) {
    if (!request.number) return;
    const state = request.outcome ? undefined : 'running';
    opened = { number: request.number, request: { state, ...request }, steps: null, isAsked: false, isUnknown: false, wasCancelled: false };
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    draw();
    ask();
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
    opened.request = over ?? flow ?? other ?? { ...opened.request, state: undefined, isGone: wasRunning || opened.request.isGone };
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
    asked.wasCancelled = true;
    draw();
    try {
        if (!(await server.cancel(asked.number))) asked.failure = 'There was nothing left to cancel.';
    } catch (error) {
        asked.failure = error.message;
    }
    if (asked === opened) draw();
}

function draw() {
    if (!opened) return;
    const { request, steps, failure, wasCancelled } = opened;
    const running = isRunning(request);
    const state = running ? el('span', { class: `tag ${request.state}` }, request.state)
        : request.outcome ? outcome(request.outcome) : el('span', { class: 'tag' }, 'over');
    const close = el('button', { type: 'button', key: 'close', title: 'Close (Esc)', onclick: () => dialog.close() }, 'Close');
    const end = running && el('button', { type: 'button', class: 'danger', key: 'cancel', disabled: wasCancelled, onclick: cancel }, wasCancelled ? 'Cancelling\u2026' : 'Cancel request');
    const fold = el('button', { type: 'button', key: 'fold', 'aria-pressed': String(folds), title: 'Fold stretches in which nothing happens (f)', onclick: toggleFolds }, 'Fold idle time');
    show(dialog,
        el('header', {},
            el('div', {}, el('h1', {}, functionName(request.function)), facts(request, running, state)),
            el('div', { class: 'tools' }, end, fold, close)),
        failure && el('p', { class: 'alarm' }, failure),
        running && waits(request),
        steps ? [summary(steps, running), waterfall(steps, { folds, running })] : el('p', { class: 'empty' }, request.isGone ? 'It is over, and was not kept.' : 'Its steps are asked for\u2026'),
        steps?.lost > 0 && el('p', { class: 'quiet' }, `${steps.lost} events in the middle were left out.`));
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

/** Where most of the time went, in a sentence. */
function summary(steps, running) {
    const most = slowest(steps.steps);
    if (!most || !(steps.length > 0)) return null;
    const { step, own } = most;
    const failed = steps.steps.findLast((it) => it.error);
    return el('p', { class: 'summary' },
        running ? 'So far most of the time went to ' : 'Most of the time went to ',
        el('b', {}, stepName(step.place)), `: ${time(own)} of ${time(steps.length)} `,
        el('span', { class: 'quiet' }, `(${shortPlace(step.place)})`),
        failed && ['. ', el('b', { class: 'error' }, failed.error), ' came from ', el('b', {}, stepName(failed.place)), el('span', { class: 'quiet' }, ` (${shortPlace(failed.place)})`)], '.');
}
