// One request: what it waits for, and the waterfall of its steps, live while it runs.

import { el, show } from './dom.js';
import { clock, shortPlace, stepName, time } from './format.js';
import * as server from './server.js';
import { functionName, outcome } from './views.js';
import { slowest, waterfall } from './waterfall.js';

const dialog = document.getElementById('details');
let opened = null;
let folds = true;

/** Opens a request, in flight or over. */
export function open(request) {
    if (!request.number) return;
    opened = { number: request.number, request, steps: null, isAsked: false, wasCancelled: false };
    if (!dialog.open) dialog.showModal();
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
    opened.request = over ?? flow ?? { ...opened.request, state: undefined, isGone: wasRunning || opened.request.isGone };
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
        asked.steps = (await server.steps(asked.number)) ?? asked.steps;
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
    const close = el('button', { type: 'button', 'data-key': 'close', title: 'Close (Esc)', onclick: () => dialog.close() }, 'Close');
    const end = running && el('button', { type: 'button', class: 'danger', 'data-key': 'cancel', disabled: wasCancelled, onclick: cancel }, wasCancelled ? 'Cancelling\u2026' : 'Cancel request');
    const fold = el('button', { type: 'button', 'data-key': 'fold', 'aria-pressed': String(folds), title: 'Fold stretches in which nothing happens (f)', onclick: toggleFolds }, 'Fold idle time');
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
        request.rid && ['rid', request.rid],
    ];
    return el('dl', { class: 'details' }, state, items.filter(Boolean).map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

/** What each branch waits for, with the places of the steps around. */
function waits(flow) {
    return el('ul', { class: 'stack' }, flow.waits.map((wait) => el('li', {},
        el('span', { class: 'path' }, wait.steps.map((step, at) => [at > 0 && el('span', { class: 'quiet' }, ' \u203a '), el('span', { title: `${step.file}:${step.line}` }, stepName(step))])),
        el('b', {}, ` waits for ${wait.reason}`), el('span', { class: 'quiet' }, ` since ${time(flow.idle)}`),
        wait.limit !== undefined && el('span', { class: 'quiet' }, `, limit in ${time(wait.limit)}`))));
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
