// Functions: their heat maps, and what was counted of them.

import { el } from './dom.js';
import { clock, grouped, outcomeClass, rate, time } from './format.js';
import { heatmap } from './heatmap.js';
import { beginning, heat, line } from './history.js';
import { card, empty, functionName, sparkline, table } from './parts.js';
import { choose, plan } from './plan.js';

/** The most heat maps: those of the busiest functions. */
const MAPS = 8;

/** All errors of a function. */
export function errorCount({ errors }) {
    return Object.values(errors).reduce((sum, count) => sum + count, 0);
}

/** Functions with requests, the busiest first. */
export function busiest(functions) {
    const busy = functions.filter((it) => it.count > 0);
    return busy.sort((one, other) => other.count - one.count || one.function.localeCompare(other.function));
}

export function functions(_, { functions: all, time_bounds: bounds }) {
    const rows = [...busiest(all), ...all.filter((it) => it.count === 0)];
    const maps = busiest(all).slice(0, MAPS);
    const errors = (it) => {
        const codes = Object.entries(it.errors).sort((one, other) => other[1] - one[1]);
        return codes.map(([code, count]) => el('span', { class: `tag ${outcomeClass(code)}` }, `${code} ${grouped(count)}`));
    };
    const begin = beginning();
    return [
        plan(),
        begin && el('p', { class: 'hint' }, `The curves and maps begin at ${clock(begin)}, when the service began, and grow to five minutes. Prometheus has what was before.`),
        el('div', { class: 'columns maps' }, maps.map((it) => el('section', { class: 'card map', key: it.function },
            el('h2', {}, functionName(it.function), el('span', { class: 'note' }, `${rate(it.interval?.rate)} / s`)),
            heatmap(heat(it.function), bounds, `Times of ${it.function} over the last minutes`)))),
        card('Since the start', { note: 'a row opens the plan of its function' }, table('Functions', [
            { title: 'Function', cell: (it) => functionName(it.function) },
            { title: 'Requests', class: 'number', cell: (it) => grouped(it.count) },
            { title: '/ s', class: 'number', cell: (it) => rate(it.interval?.rate) },
            { title: 'Recently', cell: (it) => sparkline(line(`rate ${it.function}`), `Requests a second of ${it.function}`, 'small', [120, 22]) },
            { title: 'Median', class: 'number', cell: (it) => time(it.count > 0 ? it.p50 : undefined) },
            { title: 'p90', class: 'number', cell: (it) => time(it.count > 0 ? it.p90 : undefined) },
            { title: 'p99', class: 'number', cell: (it) => time(it.count > 0 ? it.p99 : undefined) },
            { title: 'Errors', class: 'wide', cell: errors },
        ], rows, { key: (it) => it.function, open: (it) => choose(it.function), nothing: empty('There is no function.') })),
    ];
}
