// The times of a function over time: a column for each second, a row for each range of times, and the
// more requests, the stronger the colour.

import { el } from './dom.js';
import { clock, grouped, time } from './format.js';
import { KEPT, rowBounds } from './history.js';

/** The least columns, so that the first ones do not fill the width. */
const LEAST = 60;

/** The heat map of these columns; `bounds` are those of the buckets. */
export function heatmap(columns, bounds, label) {
    const limits = rowBounds(bounds);
    const seen = range(columns);
    if (!seen) return el('div', { class: 'heat nothing' }, 'No request in five minutes');
    const places = Math.min(KEPT, Math.max(LEAST, columns.length));
    const plan = { columns, limits, places, ...seen };
    const point = (event) => {
        event.currentTarget.title = describe(plan, event.offsetX / event.currentTarget.clientWidth, event.offsetY / event.currentTarget.clientHeight);
    };
    return el('div', { class: 'heat' },
        el('div', { class: 'scale', 'aria-hidden': true }, el('span', {}, time(limits[seen.high] ?? limits.at(-1))), el('span', {}, time(limits[Math.max(0, seen.low - 1)]))),
        el('canvas', { role: 'img', 'aria-label': label, onpointermove: point, paint: (canvas) => paint(canvas, plan) }),
        el('div', { class: 'when', 'aria-hidden': true }, el('span', {}, ago(places)), el('span', {}, 'now')));
}

/** The rows that have requests, with one more on each side, and the greatest count. */
function range(columns) {
    let [low, high, most] = [Infinity, -1, 0];
    for (const { times } of columns) {
        times.forEach((count, row) => {
            if (count === 0) return;
            low = Math.min(low, row);
            high = Math.max(high, row);
            most = Math.max(most, count);
        });
    }
    return high < 0 ? null : { low: Math.max(0, low - 1), high: high + 1, most };
}

function paint(canvas, { columns, low, high, most, places }) {
    const ratio = devicePixelRatio;
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (width === 0) return;
    // this clears it
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext('2d');
    const style = getComputedStyle(canvas);
    const colours = [1, 2, 3, 4, 5].map((at) => style.getPropertyValue(`--heat-${at}`));
    const errors = style.getPropertyValue('--bad');
    const strip = Math.round(4 * ratio);
    const [wide, tall] = [width / places, (height - strip - 2) / (high - low + 1)];
    columns.slice(-places).forEach(({ times, hasErrors }, at, { length }) => {
        const left = Math.floor((places - length + at) * wide);
        const breadth = Math.max(1, Math.ceil((places - length + at + 1) * wide) - left - (wide > 3 ? 1 : 0));
        for (let row = low; row <= high; row += 1) {
            const count = times[row] ?? 0;
            if (count === 0) continue;
            const share = Math.log1p(count) / Math.log1p(most);
            context.fillStyle = colours[Math.min(4, Math.floor(share * 5))];
            const top = Math.floor((high - row) * tall);
            context.fillRect(left, top, breadth, Math.max(1, Math.ceil((high - row + 1) * tall) - top - (tall > 4 ? 1 : 0)));
        }
        if (!hasErrors) return;
        context.fillStyle = errors;
        context.fillRect(left, height - strip, breadth, strip);
    });
}

function ago(seconds) {
    return seconds < 120 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
}

/** What is at a share of the width and the height. */
function describe({ columns, limits, low, high, places }, x, y) {
    const column = columns[Math.floor(x * places) - (places - Math.min(places, columns.length))];
    const row = high - Math.floor(y * (high - low + 1));
    if (!column) return '';
    const count = column.times[row] ?? 0;
    return `${clock(column.at)}: ${grouped(count)} of ${time(limits[row - 1] ?? 0)} to ${limits[row] === undefined ? 'more' : time(limits[row])}`;
}
