// The nodes of the fabric: what each serves, and how many calls it has.

import { el } from './dom.js';
import { grouped } from './format.js';
import { empty, table } from './parts.js';

export function nodes(found) {
    if (!found) return empty('The nodes are asked\u2026');
    if (found.error) return empty('The nodes cannot be asked.', found.error);
    return [
        found.all > found.nodes.length && el('p', { class: 'hint' }, `The first ${found.nodes.length} of ${grouped(found.all)} by name.`),
        table('Nodes, by name', [
            { title: 'Node', cell: (it) => el('b', {}, it.node) },
            { title: 'State', cell: (it) => [el('span', { class: `tag ${it.is_draining ? 'warn' : 'good'}` }, it.is_draining ? 'draining' : 'serving'), it.has_other_secret && el('span', { class: 'tag bad' }, 'another secret')] },
            { title: 'In flight', class: 'number', cell: (it) => grouped(it.in_flight) },
            { title: 'Serves', class: 'wide', cell: (it) => it.interfaces.map((name) => el('div', {}, name)) },
        ], found.nodes, { key: (it) => it.node, nothing: empty('No node serves anything.') }),
    ];
}
