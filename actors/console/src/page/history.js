// What the page remembers of the snapshots before: a window of five minutes, whatever happens. It begins with what the
// server has kept.

/** How many snapshots are remembered: one comes a second. */
export const KEPT = 300;

/** How many of them a sparkline shows. */
const SPARK = 120;

/** So many buckets of a distribution are one row of a heat map. */
const TOGETHER = 2;

const lines = new Map();
const columns = new Map();
let before = null;
/** When the first snapshot came. */
let since = null;

/** Remembers a snapshot, or what the server has kept of one, unless it is the last one again, as after a new request for
 * snapshots. */
export function remember(snapshot) {
    const { at, interval, health, functions } = snapshot;
    if (at <= before?.at) return;
    since ??= at;
    const isFirst = !before || !interval;
    const delay = Math.max(0, ...health.arbiter_delays);
    const times = interval?.rate > 0 ? interval : {};
    const values = { rate: interval?.rate, errors: interval?.error_rate, p50: times.p50, p99: times.p99, flows: health.in_flight, queued: health.queued, delay };
    for (const [name, value] of Object.entries(values)) push(lines, name, value ?? NaN);
    for (const it of functions) {
        push(lines, `rate ${it.function}`, it.interval?.rate ?? NaN);
        push(columns, it.function, { at, times: merged(it.interval?.times ?? []), hasErrors: it.interval?.error_rate > 0 });
    }
    const seconds = isFirst ? undefined : (at - before.at) / 1000;
    for (const [reason, count] of Object.entries(health.refusals)) {
        const earlier = before?.health.refusals[reason] ?? 0;
        push(lines, `refused ${reason}`, seconds > 0 ? Math.max(0, count - earlier) / seconds : NaN);
    }
    before = snapshot;
}

function push(kept, name, value) {
    if (!kept.has(name)) kept.set(name, []);
    const values = kept.get(name);
    values.push(value);
    if (values.length > KEPT) values.shift();
}

/** The last values of a line, for a sparkline. */
export function line(name) {
    return (lines.get(name) ?? []).slice(-SPARK);
}

/** When the history begins, if it has not its whole length yet. */
export function beginning() {
    return before && before.at - since < KEPT * 1000 ? since : null;
}

/** The last value of a line. */
export function last(name) {
    return lines.get(name)?.at(-1);
}

/** The columns of the heat map of a function, the oldest first. */
export function heat(name) {
    return columns.get(name) ?? [];
}

/** The greatest times of the rows of heat maps, of those of the buckets. */
export function rowBounds(bounds) {
    return bounds.filter((_, at) => at % TOGETHER === TOGETHER - 1 || at === bounds.length - 1);
}

function merged(counts) {
    const rows = [];
    for (let at = 0; at < counts.length; at += TOGETHER) {
        rows.push(counts.slice(at, at + TOGETHER).reduce((sum, count) => sum + count, 0));
    }
    return rows;
}
