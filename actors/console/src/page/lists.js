// The lists of requests: in flight, over, refused.

import { el } from './dom.js';
import { clock, grouped, outcomeClass, rate, stepName, time } from './format.js';
import { last, line } from './history.js';
import { card, durableLink, empty, functionName, lockName, outcome, owner, path, sparkline, table } from './parts.js';

/** What a list without rows says. */
function nothing(isFiltered, text, hint) {
    return isFiltered ? empty('Nothing matches the filter.') : empty(text, hint);
}

/** What a step awaits, where the plan of its function says that. */
const AWAITED = {
    body: ['step', 'runs'], sleep: ['sleep', 'until its time has come'], signal: ['signal', 'with the name of the step'],
    durable: ['durable', 'its request waits, or another process runs it'], journal: ['journal', 'until its records are stored'],
};

/** What a branch waits for, in words, with those that hold it up. */
export function wait(it, open) {
    const holders = it.lock?.holders ?? [];
    const more = (it.lock?.all_holders ?? 0) - holders.length;
    const [cause, reason] = AWAITED[it.awaits] ?? [it.cause, `waits for ${it.reason}`];
    const attempt = it.attempts > 1 ? `attempt ${it.attempt} of ${it.attempts}` : it.attempt > 1 && `attempt ${it.attempt}`;
    const limit = it.limit !== undefined && (it.limit_of ? `${time(Math.max(0, it.limit_of - it.limit))} of ${time(it.limit_of)}` : `limit in ${time(it.limit)}`);
    return [
        el('span', { class: `tag cause ${it.cause}` }, cause),
        el('span', { class: 'reason' }, reason),
        holders.length > 0 && el('span', { class: 'held-by' }, 'held by ', holders.map((holder) => owner(holder, open)), more > 0 && ` and ${grouped(more)} more`),
        attempt && el('span', { class: `tag ${it.attempt > 1 ? 'warn' : ''}` }, attempt),
        limit && el('span', { class: 'quiet', title: it.limited_by && `The limit of ${stepName(it.limited_by)}` }, limit),
    ];
}

export function flows(found, { flows: { all, flows: sent } }, { open, openDurable, isFiltered }) {
    const waits = (flow) => [
        flow.waits.map((it) => el('div', { class: 'wait' }, path(it.steps), wait(it, open))),
        flow.branches > flow.waits.length && el('div', { class: 'quiet' }, `and ${grouped(flow.branches - flow.waits.length)} more branches`)];
    return [
        all > sent.length && el('p', { class: 'hint' }, `The oldest ${sent.length} of ${grouped(all)} in flight. A filter by function or cause looks at all of them.`),
        table('Requests in flight, the oldest first', [
            { title: 'No.', class: 'number fixed quiet rest', cell: (it) => it.number || '\u2013' },
            { title: 'Function', cell: (it) => [functionName(it.function), it.durable && durableLink(it.durable, openDurable)] },
            { title: 'User', class: 'quiet rest', cell: (it) => it.user ?? 'anonymous' },
            { title: 'State', cell: (it) => el('span', { class: `tag ${it.state}` }, it.state) },
            { title: 'Age', class: 'number', cell: (it) => time(it.age) },
            { title: 'Where it is, and what it waits for', class: 'wide', cell: waits },
            { title: 'Holds', cell: (it) => it.holds.map((held) => el('div', { class: 'holds', title: `${held.step.file}:${held.step.line}` }, lockName({ kind: 'lock', ...held }))) },
        ], found, { key: (it) => `flow-${it.number}-${it.flow}`, open, nothing: nothing(isFiltered, 'No request waits.', 'Requests that are over within one turn of the event loop never show up here.') }),
    ];
}

export function requests(found, snapshot, { open, isFiltered }) {
    const { recent: sent, kept } = snapshot;
    const old = `The executor keeps slow and failed requests, the newest ${grouped(kept)} now: older ones may have been dropped.`;
    return [
        kept > sent.length && el('p', { class: 'hint' }, `The newest ${sent.length} of ${grouped(kept)} that are kept. A filter looks at all of them.`),
        table('Requests that are over and were kept, the one that ended last first', [
            { title: 'Arrived', class: 'quiet fixed', cell: (it) => clock(it.arrived) },
            { title: 'No.', class: 'number fixed quiet rest', cell: (it) => it.number },
            { title: 'Function', cell: (it) => functionName(it.function) },
            { title: 'User', class: 'quiet rest', cell: (it) => it.user ?? 'anonymous' },
            { title: 'Outcome', cell: (it) => outcome(it.outcome) },
            { title: 'Took', class: 'number', cell: (it) => time(it.total) },
            { title: 'Queued', class: 'number quiet', cell: (it) => time(it.queued) },
            { title: 'Steps', class: 'wide line', cell: (it) => el('span', { title: it.steps }, it.steps) },
        ], found, { key: (it) => `recent-${it.number}`, open, nothing: isFiltered ? empty('Nothing matches the filter.', old) : empty('No request was slow, and none failed.', 'The executor keeps those that its policy wants: slow ones, failed ones, a share of all.'), rowClass: (it) => outcomeClass(it.outcome) }),
    ];
}

/** What an operator does about a reason. */
const REASONS = {
    budget: 'the budget was used up', client_limit: 'a client was over its limits', closing: 'the service closes', too_large: 'the message was too large',
    malformed: 'the message was no request', unknown: 'there is no such function', security: 'the caller may not do this', invalid: 'the request did not fit its definition',
};

export function refused(found, { health }, { isFiltered }) {
    const reasons = Object.entries(health.refusals).sort((one, other) => other[1] - one[1]);
    return [
        reasons.length > 0 && el('div', { class: 'tiles' }, reasons.map(([reason, count]) => el('section', { key: reason, class: 'tile' },
            el('h2', {}, reason.replaceAll('_', ' ')),
            el('p', { class: 'figure' }, rate(last(`refused ${reason}`)), el('span', { class: 'unit' }, ' / s')),
            el('p', { class: 'note' }, `${grouped(count)} so far: ${REASONS[reason] ?? 'see the text'}`),
            sparkline(line(`refused ${reason}`), `Refused a second: ${reason}`, 'warn')))),
        card('The last ones', { note: 'none of them reached a function' }, table('Requests that were refused, the newest first', [
            { title: 'At', class: 'quiet fixed', cell: (it) => clock(it.at) },
            { title: 'Function', cell: (it) => functionName(it.function) },
            { title: 'From', class: 'quiet fixed', cell: (it) => it.peer ?? 'this process' },
            { title: 'Reason', cell: (it) => el('span', { class: 'tag warn' }, it.reason.replaceAll('_', ' ')) },
            { title: 'Answered with', class: 'wide', cell: (it) => [el('b', {}, it.code), it.text && el('span', { class: 'quiet' }, ` ${it.text}`)] },
        ], found, { nothing: nothing(isFiltered, 'No request was refused.', 'Here are those over the budget or a limit, with wrong credentials, to functions that are not there, or not fit for their definition.') })),
    ];
}
