// What several views show: names, tags, cards, tables, sparklines.

import { el, svg } from './dom.js';
import { functionParts, grouped, outcomeClass, stepName, time } from './format.js';

/** A function with its interface in grey. */
export function functionName(name) {
    const [iface, func] = functionParts(name);
    return el('span', { class: 'function' }, el('span', { class: 'quiet' }, iface), el('b', {}, func || '\u2013'));
}

/** A button to what is recorded of a request. */
export function durableLink(uid, open) {
    return el('button', { type: 'button', class: 'link', title: `What is recorded of it: ${uid}`, onclick: (event) => { event.stopPropagation(); open(uid); } }, 'durable');
}

/** How a request ended, in its colour. */
export function outcome(text) {
    return el('span', { class: `tag ${outcomeClass(text)}` }, text);
}

/** The steps around a wait, the outermost first, with their places as titles. */
export function path(steps) {
    const shown = steps.filter((step, at) => at === 0 || !isPart(step, steps[at - 1]));
    return el('span', { class: 'path' }, shown.map((step, at) => [
        at > 0 && el('span', { class: 'quiet' }, ' \u203a '), el('span', { title: `${step.file}:${step.line}` }, stepName(step))]));
}

/** Whether a step says no more than the one around it: it has its name, or none and its place. */
function isPart(step, around) {
    const isSameLine = step.file === around.file && step.line === around.line;
    return step.name ? step.name === around.name : isSameLine;
}

/** Who holds a lock or waits for it: a button if it is a request that can be opened. */
export function owner(it, open, waited) {
    const [, func] = functionParts(it.function ?? '');
    const title = [it.function, it.user && `for ${it.user}`, it.flow && `flow ${it.flow}`, it.branch > 0 && `branch ${it.branch}`].filter(Boolean).join(', ');
    const text = [func ? el('b', {}, func) : it.flow ? `flow ${it.flow}` : 'outside of flows', it.request && ` #${it.request}`, waited !== undefined && el('span', { class: 'quiet' }, ` ${time(waited)}`)];
    if (!it.request) return el('span', { class: 'owner', title }, text);
    return el('button', { type: 'button', class: 'owner', title, onclick: (event) => { event.stopPropagation(); open({ number: it.request, function: it.function, user: it.user }); } }, text);
}

/** A lock as it is called, with its key. */
export function lockName({ kind, name, key }) {
    return [name || kind, key && el('span', { class: 'key' }, key)];
}

export function fact(value, what, kind) {
    return el('span', { class: `fact ${kind || ''}` }, el('b', {}, typeof value === 'number' ? grouped(value) : value), ` ${what}`);
}

/** A card with a title, and a button to the view that has all of it. */
export function card(title, { view, go, kind = '', note } = {}, ...children) {
    const more = view && el('button', { type: 'button', class: 'link', onclick: () => go(view) }, 'Show all');
    return el('section', { class: `card ${kind}` }, el('h2', {}, title, note && el('span', { class: 'note' }, note), more), children);
}

/** What is shown in place of nothing. */
export function empty(text, hint) {
    return el('div', { class: 'empty' }, el('p', {}, text), hint && el('p', { class: 'hint' }, hint));
}

/** A table. Columns are `{ title, class, cell(row) }`; `open(row)` makes its rows buttons. */
export function table(caption, columns, rows, { key, open, nothing, rowClass } = {}) {
    if (rows.length === 0) return nothing ?? empty('Nothing here.');
    const head = columns.map(({ title, class: kind }) => el('th', { scope: 'col', class: kind }, title));
    const body = rows.map((row) => {
        const cells = columns.map(({ cell, class: kind }) => el('td', { class: kind }, cell(row)));
        if (!open) return el('tr', { key: key?.(row), class: rowClass?.(row) }, cells);
        const onkeydown = (event) => {
            if (event.target !== event.currentTarget || (event.key !== 'Enter' && event.key !== ' ')) return;
            event.preventDefault();
            open(row);
        };
        return el('tr', { key: key(row), tabindex: 0, onclick: () => open(row), onkeydown, class: `opens ${rowClass?.(row) ?? ''}` }, cells);
    });
    return el('div', { class: 'scroll' },
        el('table', {}, el('caption', { class: 'unseen' }, caption), el('thead', {}, el('tr', {}, head)), el('tbody', {}, body)));
}

/** A line over the last values; those that are not known are left out. */
export function sparkline(values, label, kind = '', [width, height] = [160, 36]) {
    const known = values.map((value, at) => [at, value]).filter(([, value]) => Number.isFinite(value));
    const most = Math.max(...known.map(([, value]) => value), 1e-9);
    const places = Math.max(values.length, 30);
    const x = (at) => (width * (at + places - values.length)) / (places - 1);
    const y = (value) => height - 2 - ((height - 6) * value) / most;
    const line = known.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
    const [from, to] = [x(known[0]?.[0] ?? 0), x(known.at(-1)?.[0] ?? 0)].map((at) => at.toFixed(1));
    return svg('svg', { class: `spark ${kind}`, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
        line.length > 1 && [
            svg('polygon', { points: `${from},${height} ${line.join(' ')} ${to},${height}` }),
            svg('polyline', { points: line.join(' ') })]);
}

/** Counts as bars, the greatest first. */
export function bars(counts, kind) {
    const rows = Object.entries(counts).sort((one, other) => other[1] - one[1]);
    const most = Math.max(1, ...rows.map(([, count]) => count));
    return el('ul', { class: 'bars' }, rows.map(([name, count]) => el('li', { key: name },
        el('span', { class: 'label' }, name),
        el('span', { class: 'bar-lane' }, el('span', { class: `fill ${kind?.(name) ?? ''}`, style: { width: `${(100 * count) / most}%` } })),
        el('span', { class: 'number' }, grouped(count)))));
}
