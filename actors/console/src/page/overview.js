// The overview: how the service is, and what is worth a look.

import { el, sparkline, table } from './dom.js';
import { bytes, clock, grouped, outcomeClass, rate, time } from './format.js';
import { functionName, outcome } from './views.js';

/** How many snapshots the sparklines show. */
const KEPT = 120;

const history = { rate: [], errors: [], p50: [], p99: [], flows: [], queued: [], delay: [] };

/** Keeps the figures of a snapshot. */
export function remember({ interval, health }) {
    const delay = Math.max(0, ...health.arbiter_delays);
    const values = [interval?.rate, interval?.error_rate, quiet(interval?.p50, interval), quiet(interval?.p99, interval), health.in_flight, health.queued, delay];
    Object.values(history).forEach((kept, at) => {
        kept.push(values[at] ?? NaN);
        if (kept.length > KEPT) kept.shift();
    });
}

/** Percentiles of no requests say nothing. */
function quiet(value, interval) {
    return interval && interval.rate > 0 ? value : undefined;
}

function tile(title, value, values, kind, note) {
    return el('section', { class: `tile ${kind ?? ''}` },
        el('h2', {}, title), el('p', { class: 'figure' }, value), el('p', { class: 'note' }, note ?? '\u00a0'),
        sparkline(values, `${title}, the last two minutes`, kind));
}

export function overview(snapshot, { open, go }) {
    const { interval, health, functions, recent, locks, deadlocks } = snapshot;
    const delay = Math.max(0, ...health.arbiter_delays);
    const errors = interval?.error_rate ?? 0;
    const share = interval?.rate > 0 ? `${((100 * errors) / interval.rate).toFixed(1)} %` : undefined;
    const tiles = el('div', { class: 'tiles' },
        tile('Requests / s', rate(interval?.rate), history.rate, 'calm', `${grouped(health.admitted)} so far`),
        tile('Errors / s', rate(interval?.error_rate), history.errors, errors > 0 ? 'bad' : 'calm', share),
        tile('Median', time(quiet(interval?.p50, interval)), history.p50, 'calm', 'half of them'),
        tile('p99', time(quiet(interval?.p99, interval)), history.p99, 'calm', '99 of 100'),
        tile('In flight', grouped(health.in_flight), history.flows, 'calm', `${grouped(health.running)} with a permit, ${bytes(health.memory)}`),
        tile('Queued', grouped(health.queued), history.queued, health.queued > 0 ? 'warn' : 'calm', `${grouped(health.rejected)} rejected`),
        tile('Arbiter delay', time(delay), history.delay, delay > 50 ? 'bad' : 'calm', `${health.arbiter_delays.length} arbiters`));
    const busy = functions.filter((it) => it.count > 0).sort((one, other) => (other.interval?.rate ?? 0) - (one.interval?.rate ?? 0) || other.count - one.count);
    const waits = locks.filter((lock) => lock.queued > 0 || lock.holders > 0);
    const refused = Object.entries(health.refused);
    return [
        tiles,
        deadlocks.count > 0 && el('p', { class: 'alarm' }, el('b', {}, `${grouped(deadlocks.count)} deadlocks. `), deadlocks.last ?? ''),
        el('div', { class: 'columns' },
            card('Slow or failed', 'requests', go, table('The last requests that were slow or failed', [
                { title: 'At', class: 'quiet fixed', cell: (it) => clock(it.arrived) },
                { title: 'Function', cell: (it) => functionName(it.function) },
                { title: 'Outcome', cell: (it) => outcome(it.outcome) },
                { title: 'Took', class: 'number', cell: (it) => time(it.total) },
            ], recent.slice(0, 8), { key: (it) => `recent-${it.number}`, open, empty: 'No request was slow, and none failed.', rowClass: (it) => outcomeClass(it.outcome) })),
            card('Busiest functions', 'functions', go, table('The busiest functions', [
                { title: 'Function', cell: (it) => functionName(it.function) },
                { title: '/ s', class: 'number', cell: (it) => rate(it.interval?.rate) },
                { title: 'p99', class: 'number', cell: (it) => time(it.p99) },
                { title: 'Errors', class: 'number', cell: (it) => grouped(Object.values(it.errors).reduce((sum, count) => sum + count, 0)) },
            ], busy.slice(0, 8), { empty: 'No request yet.' })),
            card('Busy locks', 'locks', go, table('Locks that are held', [
                { title: 'Lock', cell: (it) => `${it.name || it.kind}` },
                { title: 'Held', class: 'number', cell: (it) => grouped(it.holders) },
                { title: 'Queued', class: 'number', cell: (it) => grouped(it.queued) },
            ], waits, { empty: 'No lock is held.' })),
            card('Refused', undefined, go, table('Requests that did not get to a function', [
                { title: 'Code', cell: ([code]) => code },
                { title: 'Requests', class: 'number', cell: ([, count]) => grouped(count) },
            ], refused, { empty: 'Every request got to a function.' }))),
    ];
}

function card(title, view, go, ...children) {
    const more = view && el('button', { type: 'button', class: 'link', 'data-key': `more-${view}`, onclick: () => go(view) }, 'all');
    return el('section', { class: 'card' }, el('h2', {}, title, more), children);
}
