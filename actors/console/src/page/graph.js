// Who waits for whom: flows and locks as boxes, from those that wait on the left to those that hold on
// the right. A cycle is red.

import { svg } from './dom.js';
import { functionParts, grouped, time } from './format.js';

/** The most waiters of a lock that have boxes of their own. */
const WAITERS = 5;

const BOX = { width: 212, height: 46, right: 84, below: 16 };

/** The graph of waits; `locks` know how many wait in all. */
export function graph(waits, locks, open) {
    const { nodes, edges } = gather(waits, locks);
    place(nodes, edges);
    const boxes = [...nodes.values()];
    const columns = 1 + Math.max(...boxes.map((it) => it.column));
    const rows = 1 + Math.max(...boxes.map((it) => it.row));
    const back = edges.filter(({ from, to }) => to.column <= from.column).length;
    const labelled = straightest(edges);
    const width = columns * (BOX.width + BOX.right) - BOX.right + 8;
    const height = rows * (BOX.height + BOX.below) + 8 + (back > 0 ? 28 : 0);
    return svg('svg', { class: 'graph', viewBox: `0 0 ${width} ${height}`, width, height, role: 'group', 'aria-label': 'Who waits for whom' },
        edges.map((it) => edge(it, height, labelled.has(it))),
        boxes.map((it) => box(it, open)));
}

/** Flows and locks, and what leads from which to which. */
function gather(waits, locks) {
    const [nodes, edges, seen] = [new Map(), [], new Map()];
    const node = (id, it) => {
        if (!nodes.has(id)) nodes.set(id, { id, isInCycle: false, ...it });
        return nodes.get(id);
    };
    const flow = (owner, from) => node(owner.flow === undefined ? `outside ${from}` : `flow ${owner.flow}`, { owner });
    const linked = new Set();
    const link = (from, to, isWait, isInCycle) => {
        const id = `${from.id} > ${to.id}`;
        if (linked.has(id)) return;
        linked.add(id);
        edges.push({ id, from, to, isWait, isInCycle });
    };
    const holding = new Set(waits.flatMap((wait) => wait.holders.map((it) => it.flow)));
    for (const wait of waits) {
        const lock = node(`lock ${wait.kind} ${wait.name} ${wait.key}`, { lock: wait });
        lock.waiters ??= queued(wait, locks);
        lock.isInCycle ||= wait.in_cycle;
        for (const holder of wait.holders) {
            const held = flow(holder, lock.id);
            held.isInCycle ||= wait.in_cycle && waits.some((it) => it.in_cycle && it.waiter.flow === holder.flow);
            link(lock, held, false, wait.in_cycle && held.isInCycle);
        }
        const count = seen.get(lock.id) ?? 0;
        if (count >= WAITERS && !wait.in_cycle && !holding.has(wait.waiter.flow)) {
            continue;
        }
        seen.set(lock.id, count + 1);
        const waiter = flow(wait.waiter, lock.id);
        waiter.waited = Math.max(waiter.waited ?? 0, wait.waited);
        waiter.isInCycle ||= wait.in_cycle;
        link(waiter, lock, true, wait.in_cycle);
    }
    return { nodes, edges };
}

/** How many wait for a key: only the first ones have boxes. */
function queued({ kind, name, key }, locks) {
    const lock = locks.find((it) => it.kind === kind && it.name === name);
    return lock?.keys.find((it) => it.key === key)?.queued;
}

/** Puts each node right of all that wait for it, cycles apart, and beside its neighbours. */
function place(nodes, edges) {
    const after = new Map([...nodes.values()].map((it) => [it, []]));
    for (const { from, to } of edges) after.get(from).push(to);
    const reached = new Set(edges.map(({ to }) => to));
    const [way, order] = [new Set(), []];
    const visit = (it) => {
        if (order.includes(it) || way.has(it)) return;
        way.add(it);
        after.get(it).forEach(visit);
        way.delete(it);
        order.push(it);
    };
    // what is visited first comes last: cycles are below all others, where their way back is free
    [...nodes.values()].sort((one, other) => other.isInCycle - one.isInCycle || reached.has(one) - reached.has(other)).forEach(visit);
    order.reverse();
    const at = new Map(order.map((it, index) => [it, index]));
    for (const it of order) it.column = 0;
    for (const it of order) {
        for (const next of after.get(it)) if (at.get(next) > at.get(it)) next.column = Math.max(next.column, it.column + 1);
    }
    const used = [];
    for (const it of order) {
        const before = edges.filter(({ from, to }) => to === it && from.column < it.column).map(({ from }) => from.row);
        const wanted = before.length > 0 ? Math.round(before.reduce((sum, row) => sum + row, 0) / before.length) : 0;
        const rows = (used[it.column] ??= new Set());
        it.row = wanted;
        while (rows.has(it.row)) it.row += 1;
        rows.add(it.row);
    }
}

function corner({ column, row }) {
    return [4 + column * (BOX.width + BOX.right), 4 + row * (BOX.height + BOX.below)];
}

/** Of the waits for a lock, and of its holders, the edge that is closest to a straight line has a text. */
function straightest(edges) {
    const best = new Map();
    const slope = ({ from, to }) => Math.abs(from.row - to.row);
    for (const it of edges) {
        const group = it.isWait ? `waits ${it.to.id}` : `holds ${it.from.id}`;
        const other = best.get(group);
        if (!other || slope(it) < slope(other)) best.set(group, it);
    }
    return new Set(best.values());
}

function edge({ id, from, to, isWait, isInCycle }, height, isLabelled) {
    const [[fromX, fromY], [toX, toY]] = [corner(from), corner(to)];
    const middle = BOX.height / 2;
    const kind = `edge ${isWait ? 'waits' : 'holds'} ${isInCycle ? 'cycle' : ''}`;
    const head = (x, y, isUp) => svg('path', { d: isUp ? `M${x - 4},${y + 7} L${x},${y} L${x + 4},${y + 7}` : `M${x - 7},${y - 4} L${x},${y} L${x - 7},${y + 4}` });
    if (to.column > from.column) {
        const [x1, y1, x2, y2] = [fromX + BOX.width, fromY + middle, toX, toY + middle];
        const bend = Math.max(28, (x2 - x1) / 2);
        const label = isLabelled && svg('text', { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 5, 'text-anchor': 'middle' }, isWait ? 'waits for' : 'held by');
        return svg('g', { key: id, class: kind }, svg('path', { d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}` }), head(x2, y2, false), label);
    }
    // back to the left, below all boxes
    const [x1, y1, x2, y2] = [fromX + BOX.width / 2, fromY + BOX.height, toX + BOX.width / 2, toY + BOX.height];
    const low = height - 12;
    const line = `M${x1},${y1} V${low - 10} Q${x1},${low} ${x1 - 10},${low} H${x2 + 10} Q${x2},${low} ${x2},${low - 10} V${y2}`;
    return svg('g', { key: id, class: kind }, svg('path', { d: line }), head(x2, y2, true),
        svg('text', { x: (x1 + x2) / 2, y: low - 5, 'text-anchor': 'middle' }, isWait ? 'waits for' : 'held by'));
}

function box(it, open) {
    const [x, y] = corner(it);
    const [title, note] = it.lock ? lockLines(it) : flowLines(it);
    const request = it.owner?.request && { number: it.owner.request, function: it.owner.function, user: it.owner.user };
    const press = (event) => (event.key === 'Enter' || event.key === ' ') && (event.preventDefault(), open(request));
    const opens = request ? { tabindex: 0, role: 'button', onclick: () => open(request), onkeydown: press } : {};
    return svg('g', { key: it.id, class: `box ${it.lock ? 'lock' : 'flow'} ${it.isInCycle ? 'cycle' : ''} ${request ? 'opens' : ''}`, ...opens },
        svg('title', {}, `${title}, ${note}`),
        svg('rect', { x, y, width: BOX.width, height: BOX.height, rx: it.lock ? BOX.height / 2 : 9 }),
        svg('text', { class: 'title', x: x + 16, y: y + 19 }, shortened(title)),
        svg('text', { class: 'note', x: x + 16, y: y + 35 }, shortened(note)));
}

function lockLines({ lock, waiters }) {
    const wait = waiters === undefined ? '' : `, ${grouped(waiters)} ${waiters === 1 ? 'waits' : 'wait'}`;
    return [`${lock.name || lock.kind} ${lock.key}`, `${lock.kind}${wait}`];
}

function flowLines({ owner, waited }) {
    const [, func] = functionParts(owner.function ?? '');
    const name = func ? `${func}${owner.request ? ` #${owner.request}` : ''}` : owner.flow === undefined ? 'outside of flows' : `flow ${owner.flow}`;
    const who = owner.user ?? (owner.request ? 'anonymous' : '');
    return [name, [who, waited === undefined ? 'holds it' : `waits ${time(waited)}`].filter(Boolean).join(', ')];
}

function shortened(text) {
    return text.length > 24 ? `${text.slice(0, 23)}\u2026` : text;
}
