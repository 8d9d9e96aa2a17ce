// Nodes. Everything that comes from outside is text of a node or the value of an attribute that is no
// code: there is no way from here to HTML.

/** An HTML element. Attributes whose names begin with `on` are listeners; `class`, `title` and the like
 * are attributes; children are nodes and texts. */
export function el(name, attributes = {}, ...children) {
    return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
    return fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
        else node.setAttribute(name, value === true ? '' : String(value));
    }
    node.append(...children.flat(Infinity).filter((child) => child || child === 0));
    return node;
}

/** Replaces what a node shows. The element that has the focus keeps it, by its `data-key`, and rows keep
 * their scroll position. */
export function show(node, ...children) {
    const focused = document.activeElement?.dataset?.key;
    const within = focused !== undefined && node.contains(document.activeElement);
    const scrolled = document.scrollingElement.scrollTop;
    node.replaceChildren(...children.flat(Infinity).filter(Boolean));
    if (within) {
        const again = [...node.querySelectorAll('[data-key]')].find((it) => it.dataset.key === focused);
        again?.focus({ preventScroll: true });
    }
    document.scrollingElement.scrollTop = scrolled;
}

/** A table. Columns are `{ title, class, cell(row) }`; `open(row)` makes its rows buttons. */
export function table(caption, columns, rows, { key, open, empty, rowClass } = {}) {
    if (rows.length === 0) return el('p', { class: 'empty' }, empty ?? 'Nothing here.');
    const head = columns.map(({ title, class: kind }) => el('th', { scope: 'col', class: kind }, title));
    const body = rows.map((row) => {
        const cells = columns.map(({ cell, class: kind }) => el('td', { class: kind }, cell(row)));
        if (!open) return el('tr', { class: rowClass?.(row) }, cells);
        const press = (event) => {
            if (event.key !== 'Enter' && event.key !== ' ') return;
            event.preventDefault();
            open(row);
        };
        const attributes = { tabindex: 0, role: 'button', 'data-key': key(row), onclick: () => open(row), onkeydown: press };
        return el('tr', { ...attributes, class: `opens ${rowClass?.(row) ?? ''}` }, cells);
    });
    return el('div', { class: 'scroll' },
        el('table', {}, el('caption', { class: 'unseen' }, caption), el('thead', {}, el('tr', {}, head)), el('tbody', {}, body)));
}

/** A line over the last values; those that are not known are left out. */
export function sparkline(values, label, kind = '') {
    const [width, height] = [160, 36];
    const known = values.map((value, at) => [at, value]).filter(([, value]) => Number.isFinite(value));
    const most = Math.max(...known.map(([, value]) => value), 1e-9);
    const places = Math.max(values.length, 30);
    const x = (at) => (width * (at + places - values.length)) / (places - 1);
    const y = (value) => height - 2 - ((height - 6) * value) / most;
    const line = known.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
    const drawing = svg('svg', { class: `spark ${kind}`, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
    if (line.length > 1) {
        const [from, to] = [x(known[0][0]), x(known.at(-1)[0])].map((at) => at.toFixed(1));
        drawing.append(
            svg('polygon', { points: `${from},${height} ${line.join(' ')} ${to},${height}` }),
            svg('polyline', { points: line.join(' ') }));
    }
    return drawing;
}
