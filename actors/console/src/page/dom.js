// Nodes. A view describes what it shows; what is shown already stays, and only what differs is changed,
// so that focus, selection and scroll positions stay, and a snapshot a second costs little. Everything
// that comes from outside is text of a node or the value of an attribute that is no code: there is no
// way from here to HTML.

const SVG = 'http://www.w3.org/2000/svg';
const HTML = 'http://www.w3.org/1999/xhtml';

/** What each node was made from. */
const described = new WeakMap();

/** An HTML element. Attributes whose names begin with `on` are listeners; `key` tells siblings apart;
 * `style` is an object of properties; `paint` is called with the node after it was shown. Children are
 * elements and texts; what is false, null, undefined or empty is left out. */
export function el(name, attributes = {}, ...children) {
    return describe(HTML, name, attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
    return describe(SVG, name, attributes, children);
}

function describe(space, name, { key, paint, ...attributes }, children) {
    return { space, name, key, paint, attributes, children: flat(children) };
}

function flat(children) {
    return children.flat(Infinity).filter((child) => child || child === 0).map((child) => (typeof child === 'object' ? child : { text: String(child) }));
}

/** Makes a node show these children. */
export function show(node, ...children) {
    arrange(node, flat(children));
}

function arrange(parent, wanted) {
    const keyed = new Map();
    const others = [];
    for (const child of parent.childNodes) {
        const key = described.get(child)?.key;
        if (key === undefined) others.push(child);
        else keyed.set(key, child);
    }
    const kept = wanted.map((it) => {
        if (it.key !== undefined) {
            const known = keyed.get(it.key);
            keyed.delete(it.key);
            return known && fits(known, it) ? known : undefined;
        }
        const at = others.findIndex((child) => fits(child, it));
        return at < 0 ? undefined : others.splice(0, at + 1).at(-1);
    });
    // before any is moved: one that has the focus would lose it
    const stay = new Set(kept);
    for (const child of [...parent.childNodes]) if (!stay.has(child)) child.remove();
    let next = parent.firstChild;
    wanted.forEach((it, index) => {
        const child = change(kept[index] ?? make(it), it);
        if (child === next) next = next.nextSibling;
        else parent.insertBefore(child, next);
        it.paint?.(child);
    });
}

function fits(node, { space, name, text }) {
    if (text !== undefined) return node.nodeType === Node.TEXT_NODE;
    return node.nodeType === Node.ELEMENT_NODE && node.localName === name && node.namespaceURI === space;
}

function make({ space, name, text }) {
    return text === undefined ? document.createElementNS(space, name) : document.createTextNode(text);
}

function change(node, wanted) {
    if (wanted.text !== undefined) {
        if (node.data !== wanted.text) node.data = wanted.text;
        return node;
    }
    const before = described.get(node)?.attributes ?? {};
    for (const name of Object.keys(before)) if (!(name in wanted.attributes)) set(node, name, undefined, before[name]);
    for (const [name, value] of Object.entries(wanted.attributes)) set(node, name, value, before[name]);
    described.set(node, wanted);
    arrange(node, wanted.children);
    return node;
}

function set(node, name, value, before) {
    if (value === before) return;
    if (name.startsWith('on')) node[name] = value ?? null;
    else if (name === 'style') Object.assign(node.style, value ?? Object.fromEntries(Object.keys(before).map((property) => [property, ''])));
    else if (value === undefined || value === null || value === false) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? '' : String(value));
}
