// The overview: how the service is, and what is worth a look.

import { el } from './dom.js';
import { bytes, clock, functionParts, grouped, outcomeClass, rate, stepName, time } from './format.js';
import { busiest, errorCount } from './functions.js';
import { line } from './history.js';
import { deadlocks } from './locks.js';
import { bars, card, empty, functionName, outcome, sparkline, table } from './parts.js';

/** Rows of a card. */
const ROWS = 7;

function tile(title, value, values, kind, note) {
    return el('section', { class: `tile ${kind ?? ''}`, key: title },
        el('h2', {}, title), el('p', { class: 'figure' }, value), el('p', { class: 'note' }, note ?? '\u00a0'),
        sparkline(values, `${title}, two minutes at the most`, kind));
}

/** Percentiles of no requests say nothing. */
function quiet(value, interval) {
    return interval?.rate > 0 ? value : undefined;
}

function tiles({ interval, health }) {
    const delay = Math.max(0, ...health.arbiter_delays);
    const errors = interval?.error_rate ?? 0;
    const share = interval?.rate > 0 ? `${((100 * errors) / interval.rate).toFixed(1)} % of all` : undefined;
    return el('div', { class: 'tiles' },
        tile('Requests / s', rate(interval?.rate), line('rate'), 'calm', `${grouped(health.admitted)} so far`),
        tile('Errors / s', rate(interval?.error_rate), line('errors'), errors > 0 ? 'bad' : 'calm', share),
        tile('Median', time(quiet(interval?.p50, interval)), line('p50'), 'calm', 'half of them'),
        tile('p99', time(quiet(interval?.p99, interval)), line('p99'), 'calm', '99 of 100'),
        tile('In flight', grouped(health.in_flight), line('flows'), 'calm', `${grouped(health.running)} with a permit, ${bytes(health.memory)}`),
        tile('Queued', grouped(health.queued), line('queued'), health.queued > 0 ? 'warn' : 'calm', `${grouped(health.rejected)} rejected`),
        tile('Arbiter delay', time(delay), line('delay'), delay > 50 ? 'bad' : 'calm', `${health.arbiter_delays.length} ${health.arbiter_delays.length === 1 ? 'arbiter' : 'arbiters'}`));
}

/** How many requests are at which step of which function, and what they wait for there. */
function places({ flows: { flows } }) {
    const counts = {};
    for (const { function: name, waits } of flows) {
        for (const it of waits) {
            const step = it.steps.at(-1);
            const what = it.lock ? `${it.cause} ${it.lock.name ?? ''}` : it.awaits === 'body' ? '' : it.awaits ?? it.cause;
            const place = [functionParts(name)[1], step && stepName(step), what.trim()].filter(Boolean).join(' \u203a ');
            counts[place] = (counts[place] ?? 0) + 1;
        }
    }
    return Object.fromEntries(Object.entries(counts).sort((one, other) => other[1] - one[1]).slice(0, ROWS));
}

export function overview(snapshot, { open, go }) {
    const { health, flows, functions, recent, locks } = snapshot;
    const held = locks.filter((lock) => lock.queued > 0 || lock.holders > 0).sort((one, other) => other.queued - one.queued || other.holders - one.holders);
    const note = flows.all > flows.flows.length ? `the oldest ${flows.flows.length} of ${grouped(flows.all)}` : undefined;
    const refusals = Object.keys(health.refusals).length > 0;
    return [
        deadlocks(snapshot),
        tiles(snapshot),
        el('div', { class: 'columns' },
            card('Slow or failed', { view: 'requests', go }, table('The last requests that were slow or failed', [
                { title: 'At', class: 'quiet fixed', cell: (it) => clock(it.arrived) },
                { title: 'Function', cell: (it) => functionName(it.function) },
                { title: 'Outcome', cell: (it) => outcome(it.outcome) },
                { title: 'Took', class: 'number', cell: (it) => time(it.total) },
            ], recent.slice(0, ROWS), { key: (it) => `recent-${it.number}`, open, nothing: empty('No request was slow, and none failed.'), rowClass: (it) => outcomeClass(it.outcome) })),
            card('Busiest functions', { view: 'functions', go }, table('The busiest functions', [
                { title: 'Function', cell: (it) => functionName(it.function) },
                { title: 'Recently', cell: (it) => sparkline(line(`rate ${it.function}`), `Requests a second of ${it.function}`, 'small', [120, 22]) },
                { title: '/ s', class: 'number', cell: (it) => rate(it.interval?.rate) },
                { title: 'p99', class: 'number', cell: (it) => time(it.p99) },
                { title: 'Errors', class: 'number', cell: (it) => grouped(errorCount(it)) },
            ], busiest(functions).slice(0, ROWS), { key: (it) => it.function, nothing: empty('No request yet.') })),
            card('Where requests are', { view: 'flows', go, note }, flows.flows.length > 0 ? bars(places(snapshot), (place) => (/\u203a (mutex|throttle)/.test(place) ? 'warn' : '')) : empty('No request waits.')),
            card('Busy locks', { view: 'locks', go }, table('Locks that are held', [
                { title: 'Lock', cell: (it) => it.name || it.kind },
                { title: 'Inside', class: 'number', cell: (it) => grouped(it.holders) },
                { title: 'Queued', class: 'number', cell: (it) => grouped(it.queued) },
                { title: 'p99 of waits', class: 'number', cell: (it) => (it.waits > 0 ? time(it.wait_p99) : '\u2013') },
            ], held.slice(0, ROWS), { key: (it) => `${it.kind} ${it.name}`, nothing: empty('No lock is held.') })),
            refusals && card('Refused, by reason', { view: 'refused', go }, bars(health.refusals, () => 'bad'))),
    ];
}
