// The lists: flows in flight, requests that are over, locks, functions.

import { el, svg, table } from './dom.js';
import { clock, functionParts, grouped, outcomeClass, rate, stepName, time } from './format.js';

/** A function with its interface in grey. */
export function functionName(name) {
    const [iface, func] = functionParts(name);
    return el('span', { class: 'function' }, el('span', { class: 'quiet' }, iface), el('b', {}, func));
}

/** How a request ended, in its colour. */
export function outcome(text) {
    return el('span', { class: `tag ${outcomeClass(text)}` }, text);
}

/** Whether all words of the filter are in a text. */
function matches(text, words) {
    const lower = text.toLowerCase();
    return words.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

/** The flows that a filter lets through. */
export function filterFlows({ flows }, { text, func, kind }) {
    return flows.flows.filter((flow) =>
        (!func || flow.function === func) && (!kind || flow.state === kind)
        && matches(`${flow.number} ${flow.function} ${flow.user ?? ''} ${JSON.stringify(flow.waits)}`, text));
}

/** The requests that a filter lets through. */
export function filterRequests({ recent }, { text, func, kind }) {
    const kinds = { failed: (it) => it.outcome !== 'success', succeeded: (it) => it.outcome === 'success' };
    return recent.filter((it) =>
        (!func || it.function === func) && (!kind || kinds[kind](it))
        && matches(`${it.number} ${it.function} ${it.user ?? ''} ${it.rid ?? ''} ${it.outcome} ${it.steps}`, text));
}

export function flows(found, snapshot, { open }) {
    const waits = (flow) => flow.waits.map((wait) => el('div', { class: 'wait' },
        el('span', { class: 'path' }, wait.steps.map(stepName).join(' \u203a ')),
        el('span', { class: 'reason' }, ` waits for ${wait.reason}`),
        wait.attempt > 1 && el('span', { class: 'tag warn' }, `attempt ${wait.attempt}`),
        wait.limit !== undefined && el('span', { class: 'quiet' }, ` limit in ${time(wait.limit)}`)));
    const all = snapshot.flows.all;
    return [
        all > snapshot.flows.flows.length && el('p', { class: 'quiet' }, `The oldest ${snapshot.flows.flows.length} of ${grouped(all)}.`),
        table('Requests in flight, the oldest first', [
            { title: 'No.', class: 'number fixed quiet', cell: (it) => it.number || '\u2013' },
            { title: 'Function', cell: (it) => functionName(it.function) },
            { title: 'User', class: 'quiet', cell: (it) => it.user ?? 'anonymous' },
            { title: 'State', cell: (it) => el('span', { class: `tag ${it.state}` }, it.state) },
            { title: 'Age', class: 'number', cell: (it) => time(it.age) },
            { title: 'Where it waits', class: 'wide', cell: waits },
        ], found, { key: (it) => `flow-${it.number}`, open, empty: 'No flow waits.' }),
    ];
}

export function requests(found, snapshot, { open }) {
    return [table('Requests that are over and were kept, the newest first', [
        { title: 'At', class: 'quiet fixed', cell: (it) => clock(it.arrived) },
        { title: 'No.', class: 'number fixed quiet', cell: (it) => it.number },
        { title: 'Function', cell: (it) => functionName(it.function) },
        { title: 'User', class: 'quiet', cell: (it) => it.user ?? 'anonymous' },
        { title: 'Outcome', cell: (it) => outcome(it.outcome) },
        { title: 'Took', class: 'number', cell: (it) => time(it.total) },
        { title: 'Queued', class: 'number quiet', cell: (it) => time(it.queued) },
        { title: 'Steps', class: 'wide line', cell: (it) => el('span', { title: it.steps }, it.steps) },
    ], found, { key: (it) => `recent-${it.number}`, open, empty: 'No request was slow, and none failed.', rowClass: (it) => outcomeClass(it.outcome) })];
}

export function locks(_, { locks: all, flows: { flows: waiting }, deadlocks }, { open }) {
    const cards = all.map((lock) => {
        const queue = waiting.filter((flow) => flow.waits.some((wait) => lock.name && wait.reason.includes(lock.name)));
        return el('section', { class: 'card' },
            el('h2', {}, lock.name || 'without a name', el('span', { class: 'tag' }, lock.kind)),
            el('p', { class: 'facts' }, fact(lock.holders, 'inside'), fact(lock.queued, 'queued', lock.queued > 0 && 'warn'), fact(lock.all_keys, 'keys in use')),
            lock.keys.length > 0 && table(`Keys of ${lock.name}`, [
                { title: 'Key', cell: (it) => it.key || 'the lock itself' },
                { title: 'Inside', class: 'number', cell: (it) => grouped(it.holders) },
                { title: 'Queue', class: 'wide', cell: (it) => queueBar(it.holders, it.queued) },
            ], lock.keys),
            queue.length > 0 && table(`Flows that wait for ${lock.name}`, [
                { title: 'Waits', cell: (it) => functionName(it.function) },
                { title: 'Since', class: 'number', cell: (it) => time(it.idle) },
                { title: 'For', class: 'wide', cell: (it) => it.waits.map((wait) => wait.reason).join('; ') },
            ], queue.slice(0, 20), { key: (it) => `wait-${lock.name}-${it.number}`, open }));
    });
    return [
        deadlocks.count > 0 && el('p', { class: 'alarm' }, el('b', {}, `${grouped(deadlocks.count)} deadlocks. `), deadlocks.last ?? ''),
        cards.length > 0 ? el('div', { class: 'columns' }, cards) : el('p', { class: 'empty' }, 'The console was told of no lock.'),
    ];
}

function fact(count, what, kind) {
    return el('span', { class: `fact ${kind || ''}` }, el('b', {}, grouped(count)), ` ${what}`);
}

/** Holders and waiters as squares, up to forty of them. */
function queueBar(holders, queued) {
    const shown = Math.min(40, holders + queued);
    const squares = Array.from({ length: shown }, (_, at) =>
        svg('rect', { class: at < holders ? 'held' : 'queued', x: at * 9, y: 1, width: 7, height: 10, rx: 2 }));
    const label = `${holders} inside, ${queued} queued`;
    return el('span', { class: 'queue' },
        svg('svg', { width: shown * 9, height: 12, role: 'img', 'aria-label': label }, squares), el('span', { class: 'quiet' }, ` ${grouped(queued)}`));
}

export function functions(_, { functions: all }) {
    const rows = [...all].sort((one, other) => other.count - one.count || one.function.localeCompare(other.function));
    const errors = (it) => {
        const codes = Object.entries(it.errors).sort((one, other) => other[1] - one[1]);
        return codes.map(([code, count]) => el('span', { class: `tag ${outcomeClass(code)}` }, `${code} ${grouped(count)}`));
    };
    return [table('Functions', [
        { title: 'Function', cell: (it) => functionName(it.function) },
        { title: 'Requests', class: 'number', cell: (it) => grouped(it.count) },
        { title: '/ s', class: 'number', cell: (it) => rate(it.interval?.rate) },
        { title: 'Median', class: 'number', cell: (it) => time(it.p50) },
        { title: 'p90', class: 'number', cell: (it) => time(it.p90) },
        { title: 'p99', class: 'number', cell: (it) => time(it.p99) },
        { title: 'Times, 10 \u00b5s to 100 s', cell: shape },
        { title: 'Errors', class: 'wide', cell: errors },
    ], rows, { empty: 'No function.' })];
}

/** The distribution of times on a logarithmic axis: the darker, the more requests. */
function shape({ shape: counts, count }) {
    const most = Math.max(1, ...counts);
    const cells = counts.map((value, at) => {
        const cell = svg('rect', { class: 'heat', x: at * 6, y: 0, width: 5.4, height: 16, rx: 1 });
        cell.style.opacity = value === 0 ? 0.07 : 0.25 + 0.75 * (Math.log1p(value) / Math.log1p(most));
        return cell;
    });
    return svg('svg', { class: 'shape', width: counts.length * 6, height: 16, role: 'img', 'aria-label': `Distribution of ${count} times` }, cells);
}
