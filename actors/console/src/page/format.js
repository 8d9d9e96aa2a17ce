// Numbers and times as people read them.

/** Milliseconds with two or three digits and a unit. */
export function time(ms) {
    if (ms === undefined || ms === null || Number.isNaN(ms)) return '\u2013';
    if (ms === 0) return '0';
    if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))}\u202f\u00b5s`;
    if (ms < 10) return `${ms.toFixed(1)}\u202fms`;
    if (ms < 1000) return `${Math.round(ms)}\u202fms`;
    if (ms < 10_000) return `${(ms / 1000).toFixed(2)}\u202fs`;
    if (ms < 120_000) return `${(ms / 1000).toFixed(1)}\u202fs`;
    return `${Math.floor(ms / 60_000)}\u202fmin ${Math.round((ms % 60_000) / 1000)}\u202fs`;
}

/** A number of things. */
export function grouped(count) {
    return Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** Things per second. */
export function rate(value) {
    if (value === undefined || value === null) return '\u2013';
    return value > 0 && value < 10 ? value.toFixed(1) : grouped(value);
}

export function bytes(value) {
    const units = ['B', 'KiB', 'MiB', 'GiB'];
    let at = 0;
    for (; value >= 1024 && at < units.length - 1; at += 1) value /= 1024;
    return `${at === 0 ? value : value.toFixed(1)}\u202f${units[at]}`;
}

/** The time of day of milliseconds since 1970. */
export function clock(at) {
    return new Date(at).toLocaleTimeString(undefined, { hour12: false });
}

/** The same with its day, unless that is today. */
export function moment(at) {
    const isToday = new Date(at).toDateString() === new Date().toDateString();
    const isOtherYear = new Date(at).getFullYear() !== new Date().getFullYear();
    const day = { month: 'short', day: 'numeric', year: isOtherYear ? 'numeric' : undefined };
    return isToday ? clock(at) : `${new Date(at).toLocaleDateString(undefined, day)} ${clock(at)}`;
}

/** `demo.shop:1.0:order` as its interface and its name. */
export function functionParts(name) {
    const at = name.lastIndexOf(':');
    return [name.slice(0, at + 1), name.slice(at + 1)];
}

/** The name of a step, or its place. */
export function stepName(place) {
    return place.name ?? shortPlace(place);
}

/** The file without its folders, and the line. */
export function shortPlace(place) {
    return `${place.file.split(/[/\\]/).at(-1)}:${place.line}`;
}

/** What colour an outcome has. */
export function outcomeClass(outcome) {
    if (outcome === 'success') return 'good';
    return outcome === 'disconnected' ? 'left' : 'bad';
}
