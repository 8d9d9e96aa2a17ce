// The steps of a request as bars over time.

import { el, svg } from './dom.js';
import { shortPlace, stepName, time } from './format.js';

/** A stretch of time in which nothing begins or ends is folded if it is so much of the whole. */
const LONG = 0.9;

/** What is beside a folded stretch is shown so many times as wide as it was. */
const WIDER = 8;

/** The least and the greatest share of the width that it gets: the folded stretch stays the longest. */
const [LEAST, MOST] = [0.06, 0.4];

/** Steps that are rows: a part of a step that its policies added is not, unless it is an attempt. */
export function rows(steps) {
    const around = [];
    const shown = [];
    for (const step of steps) {
        around.length = step.depth;
        const parent = around.at(-1);
        const isUnnamed = parent && !step.place.name && (!step.error || step.error === parent.error) && sameLine(parent, step);
        const isPart = isUnnamed || (parent && samePlace(parent, step) && parent.branch === step.branch);
        const attempts = isPart ? parent.parts.filter((it) => samePlace(it, step)) : [];
        const row = { ...step, parts: [], level: (parent?.level ?? -1) + 1, label: stepName(step.place) };
        if (isUnnamed || (isPart && !hasAttempts(steps, step))) row.level = parent.level;
        else shown.push(row);
        if (isPart && shown.at(-1) === row) row.label = `try ${attempts.length + 1}`;
        parent?.parts.push(row);
        around.push(row);
    }
    return shown;
}

function sameLine(one, other) {
    return one.place.file === other.place.file && one.place.line === other.place.line;
}

function samePlace(one, other) {
    return sameLine(one, other) && one.place.name === other.place.name;
}

/** Whether a step has neighbours of its own place at its depth that are other attempts: then each one is an attempt. */
function hasAttempts(steps, step) {
    return steps.some((it) => it.depth === step.depth && it.branch === step.branch && samePlace(it, step)
        && it.attempt !== step.attempt);
}

/** The step that took longest by itself: what is inside of it, it did not take, but for its attempts and
 * the pauses between them. One without a name is a part of the function or of the library, unless there are no others. */
export function slowest(steps) {
    const around = [];
    const own = steps.map((step, at) => {
        const inside = [];
        for (let next = at + 1; next < steps.length && steps[next].depth > step.depth; next += 1) {
            if (steps[next].depth === step.depth + 1) inside.push([steps[next].began, steps[next].began + steps[next].took]);
        }
        around.length = step.depth;
        const parent = around.at(-1);
        const isAttempt = parent && samePlace(parent.step, step) && parent.step.branch === step.branch;
        const whole = isAttempt ? parent : { step, own: 0 };
        whole.own += step.took - covered(inside);
        around.push(whole);
        return whole;
    });
    const named = own.filter(({ step }) => step.place.name);
    return (named.length > 0 ? named : own).sort((one, other) => other.own - one.own)[0];
}

/** The length of a union of spans. */
function covered(spans) {
    let [length, until] = [0, 0];
    for (const [from, to] of spans.sort((one, other) => one[0] - other[0])) {
        length += Math.max(0, to - Math.max(from, until));
        until = Math.max(until, to);
    }
    return length;
}

/** Places times on a width of 100, with long stretches folded. */
export function scale(steps, length, folds) {
    const times = new Set([0, length]);
    for (const { began, took } of steps) times.add(began).add(Math.min(length, began + took));
    const points = [...times].sort((one, other) => one - other);
    const stretches = points.slice(1).map((to, at) => ({ from: points[at], to, folded: false }));
    if (folds && stretches.length > 2) {
        for (const it of stretches) it.folded = it.to - it.from > LONG * length;
    }
    const folded = stretches.filter((it) => it.folded);
    const left = length - folded.reduce((sum, it) => sum + it.to - it.from, 0);
    const share = Math.min(MOST, Math.max(LEAST, (WIDER * left) / (length || 1)));
    const width = folded.length > 0 ? 100 * share : 100;
    let x = 0;
    for (const it of stretches) {
        it.x = x;
        it.width = it.folded ? 100 - width : (width * (it.to - it.from)) / (left || 1);
        x += it.width;
    }
    const place = (at) => {
        const it = stretches.find(({ to }) => at <= to) ?? stretches.at(-1);
        if (!it) return 0;
        return it.x + (it.width * (at - it.from)) / (it.to - it.from || 1);
    };
    return { place, folded };
}

/** The waterfall of recorded steps. */
export function waterfall({ steps, length }, { folds, running }) {
    const shown = rows(steps);
    const { place, folded } = scale(steps, length, folds);
    const cause = slowest(steps)?.step;
    const lines = shown.map((step) => {
        const kind = step.ending === 'open' && !running ? 'lost' : step.ending;
        const from = place(step.began);
        const to = place(Math.min(length, step.began + step.took));
        const bar = svg('svg', { class: 'lane', preserveAspectRatio: 'none', viewBox: '0 0 100 10', 'aria-hidden': true },
            folded.map((it) => svg('rect', { class: 'fold', x: it.x, width: it.width, y: 0, height: 10 })),
            svg('rect', { class: `span ${kind}`, x: from, width: Math.max(to - from, 0.35), y: 1.5, height: 7, rx: 0.4 }),
            folded.map((it) => [-0.5, 0.5].map((by) => {
                const middle = it.x + it.width / 2 + by;
                return svg('line', { class: 'cut', x1: middle - 0.4, y1: 10, x2: middle + 0.4, y2: 0 });
            })));
        const isCause = cause && cause.began === step.began && samePlace(cause, step) && cause.took === step.took;
        const error = step.error && el('span', { class: 'error' }, step.error, step.info && el('span', { class: 'info' }, ` ${step.info}`));
        const name = el('span', { class: 'name', style: { paddingLeft: `${step.level * 14}px` } }, el('b', {}, step.label),
            step.flow > 0 && step.level === 0 && el('span', { class: 'tag undoing' }, 'undo'),
            step.branch > 0 && el('span', { class: 'tag' }, `branch ${step.branch}`), error || undefined);
        return el('li', { class: `row ${kind} ${isCause ? 'cause' : ''} ${step.parts.length > 0 ? 'outer' : ''}`, title: `${step.place.file}:${step.place.line}` },
            name, el('span', { class: 'place' }, shortPlace(step.place)), bar,
            el('span', { class: 'took' }, time(step.took), step.ending === 'open' && running && el('span', { class: 'dots' }, ' \u2026')));
    });
    const labels = folded.map((it) => el('span', { class: 'folded', style: { left: `${it.x + it.width / 2}%` } }, `\u2248 ${time(it.to - it.from)}`));
    return el('div', { class: 'waterfall' },
        el('div', { class: 'axis' }, el('span', { class: 'name' }, 'Step'), el('span', { class: 'place' }, 'Source'),
            el('span', { class: 'lane ruler' }, el('span', {}, '0'), labels, el('span', { class: 'end' }, time(length))), el('span', { class: 'took' }, 'Took')),
        el('ol', {}, lines));
}
