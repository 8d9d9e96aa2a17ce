// The plan of a function: what its requests go through, what runs in each step now, and how it fared.

import { el } from './dom.js';
import { grouped, outcomeClass, time } from './format.js';
import { empty, functionName } from './parts.js';
import * as server from './server.js';

/** The kinds of steps, as they are called in the drawing. */
const KINDS = {
    body: '', group: 'steps as one', scope: 'scope', join: 'all at once', each: 'for each item', race: 'a race of items', repeat: 'again and again',
    when: 'for some requests', either: 'one of two ways', or_end: 'may end here', dynamic: 'defined when reached', asi: 'steps of FTN12', pass: 'nothing to do',
};

/** Steps whose ways are beside each other. */
const BESIDE = ['join', 'either'];

let chosen = null;
let found = null;
let failure = null;
let redraw = () => {};
let isAsking = false;

/** Asks the server for the plan that is shown, if one is, and draws it. */
export async function ask(draw) {
    redraw = draw;
    const asked = chosen;
    if (!asked || isAsking) return;
    isAsking = true;
    try {
        const plan = await server.plan(asked);
        if (asked === chosen) [found, failure] = [plan, plan ? null : 'The function is not hosted.'];
    } catch (error) {
        failure = error.message;
    }
    isAsking = false;
    // another one may have been chosen meanwhile
    if (asked !== chosen) ask(draw);
    else redraw();
}

/** Shows the plan of this function, or none. */
export function choose(name) {
    [chosen, found, failure] = [name, null, null];
    redraw();
    ask(redraw);
}

/** The plan that was chosen. */
export function plan() {
    if (!chosen) return null;
    const close = el('button', { type: 'button', onclick: () => choose(null) }, 'Close');
    return el('section', { class: 'card plan', key: 'plan', 'aria-label': `Plan of ${chosen}` },
        el('h2', {}, functionName(chosen), el('span', { class: 'note' }, found && summary(found)), el('div', { class: 'tools' }, close)),
        failure && empty('The plan cannot be asked for.', failure),
        found ? drawing(found) : !failure && empty('The plan is asked for\u2026'));
}

function summary({ all, in_flight: inFlight, kept, plan: { answer_within: limit } }) {
    return [`${grouped(all)} steps`, limit !== undefined && `answers within ${time(limit)}`, `${grouped(inFlight)} in flight`, `times and errors of ${grouped(kept)} kept`].filter(Boolean).join(' \u00b7 ');
}

/** What stands for the steps of a plan: boxes, one below the other, with those inside of a step in its box. */
export function drawing({ plan: { kind, steps }, all, reports }) {
    if (kind !== 'plan') return empty('The function has no plan.', kind === 'template' ? 'It is a template: its steps are known when they run.' : 'It is not implemented.');
    // reports are in the order of the tree
    const left = [...reports];
    const shown = level(steps, left);
    return [shown, all > reports.length && el('p', { class: 'hint' }, `The first ${grouped(reports.length)} of ${grouped(all)} steps.`)];
}

function level(steps, left) {
    return el('ol', { class: 'steps' }, steps.map((step) => el('li', {}, box(step, left.shift(), left))));
}

function box(step, report, left) {
    const at = step.source.split(/[/\\]/).at(-1);
    const ways = step.ways.map((way) => level(way, left));
    const inside = BESIDE.includes(step.form) ? ways.map((way, number) => el('div', { class: 'way' }, el('span', { class: 'quiet' }, `${number + 1}`), way)) : ways;
    return el('div', { class: `step ${step.form} ${report?.running > 0 ? 'busy' : ''}` },
        el('p', { class: 'title', title: `${step.takes} \u2192 ${step.returns}` }, step.name && el('b', {}, step.path.split('/').at(-1)), KINDS[step.form] && el('span', { class: 'quiet' }, ` ${KINDS[step.form]}`), el('span', { class: 'note' }, at)),
        el('p', { class: 'said' }, said(step).map((text) => el('span', { class: 'tag' }, text)), report && known(report)),
        ways.length > 0 && el('div', { class: 'inside' }, inside));
}

/** What is said about a step. */
function said(step) {
    const several = (word, count) => count > 0 && (count > 1 ? `${word} \u00d7${count}` : word);
    const child = step.child && `begins ${step.child.function}${step.child.policy === 'cancel' ? ', cancelled with it' : ''}`;
    return [
        child, several('locked', step.locks), several('limited', step.limiters), step.at_once && `${step.at_once} at once`,
        step.first && `first ${step.first}`, step.at_least !== undefined && `at least ${step.at_least}`, step.durable,
        step.timeout !== undefined && `limit ${time(step.timeout)}`, step.retry && `${step.retry.attempts} attempts`,
        step.undo && (step.undo === 'of_result' ? 'undo' : 'undo with input'), step.recovers && 'recovers', step.is_shielded && 'shielded', step.commits && 'commits',
    ].filter(Boolean);
}

/** What runs in a step now, and how it fared in the requests that were kept. */
function known({ running, waits, ended, errors, p99 }) {
    return [
        running > 0 && el('span', { class: 'tag running' }, `${grouped(running)} here`),
        Object.entries(waits).map(([cause, count]) => el('span', { class: `tag cause ${cause}` }, `${grouped(count)} ${cause.replaceAll('_', ' ')}`)),
        ended > 0 && el('span', { class: 'quiet' }, `p99 ${time(p99)} of ${grouped(ended)}`),
        Object.entries(errors).map(([code, count]) => el('span', { class: `tag ${outcomeClass(code)}` }, `${code} ${grouped(count)}`)),
    ];
}
