// Locks and limits: who holds, who waits, and the graph of who waits for whom.

import { el } from './dom.js';
import { grouped, time } from './format.js';
import { graph } from './graph.js';
import { card, empty, fact, owner, table } from './parts.js';

/** What says that there were deadlocks. */
export function deadlocks({ waits: { deadlocks: count, last_deadlocks: last } }) {
    return count > 0 && el('div', { class: 'alarm', key: 'deadlocks' },
        el('b', {}, `${grouped(count)} ${count === 1 ? 'deadlock' : 'deadlocks'} so far. `), el('span', {}, last.at(-1) ?? ''));
}

export function locks(_, snapshot, { open }) {
    const { locks: all, waits } = snapshot;
    const cycles = waits.waits.filter((it) => it.in_cycle).length;
    const note = waits.all > waits.waits.length ? `${waits.waits.length} of ${grouped(waits.all)} waits, those in cycles first` : undefined;
    return [
        deadlocks(snapshot),
        all.length > 0 && card('Who waits for whom', { kind: 'wide', note },
            cycles > 0 && el('p', { class: 'alarm cycle' }, el('b', {}, 'These requests wait for each other. '), 'A time limit ends one of the waits, or you cancel one.'),
            waits.waits.length > 0 ? el('div', { class: 'scroll drawing' }, graph(waits.waits, all, open)) : empty('Nothing waits for a lock.')),
        all.length > 0 ? el('div', { class: 'columns' }, all.map((lock) => lockCard(lock, open)))
            : empty('The console was told of no lock.', 'Give it those that it shall show: Locks::new().mutex(&stock).'),
    ];
}

function lockCard(lock, open) {
    const holders = (it) => [it.inside.map((one) => owner(one, open)), it.holders > it.inside.length && ` +${grouped(it.holders - it.inside.length)}`, it.entered > 0 && el('span', { class: 'quiet' }, `${grouped(it.entered)} in this period`)];
    const queue = (it) => [it.waiting.map((one) => owner(one.owner, open, one.waited)), it.queued > it.waiting.length && el('span', { class: 'quiet' }, ` +${grouped(it.queued - it.waiting.length)}`)];
    const keys = lock.keys.filter((it) => it.holders > 0 || it.queued > 0 || it.entered > 0);
    return el('section', { class: 'card', key: `${lock.kind} ${lock.name}` },
        el('h2', {}, lock.name || 'without a name', el('span', { class: 'tag' }, lock.kind), limits(lock.limits)),
        el('p', { class: 'facts' },
            fact(lock.holders, 'inside'), fact(lock.queued, 'queued', lock.queued > 0 && 'warn'), fact(lock.all_keys, lock.all_keys === 1 ? 'key in use' : 'keys in use'),
            lock.waits > 0 && fact(time(lock.wait_p50), 'median wait'), lock.waits > 0 && fact(time(lock.wait_p99), 'p99'),
            lock.given_up > 0 && fact(lock.given_up, 'gave up', 'warn'), lock.rejected > 0 && fact(lock.rejected, 'rejected', 'bad')),
        table(`Keys of ${lock.name}`, [
            { title: 'Key', class: 'key-cell', cell: (it) => it.key || el('span', { class: 'quiet' }, 'no key') },
            { title: 'Inside', class: 'owners', cell: holders },
            { title: `Queue${keys.length < lock.all_keys ? ', the longest ones' : ''}`, class: 'wide', cell: queue },
        ], keys, { key: (it) => it.key, nothing: empty('Free.') }));
}

function limits({ concurrent, rate, period, max_queue: queue }) {
    return [
        concurrent !== undefined && el('span', { class: 'tag' }, `${concurrent} at once`),
        rate !== undefined && el('span', { class: 'tag' }, `${grouped(rate)} in ${time(period)}`),
        queue !== undefined && el('span', { class: 'tag' }, `queue of ${grouped(queue)}`)];
}
