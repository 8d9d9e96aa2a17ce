// What a filter lets through.

/** Whether all words of the filter are in a text. */
function matches(text, words) {
    const lower = text.toLowerCase();
    return words.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

/** The flows in flight that a filter lets through. */
export function flows(all, { text, func, kind, cause }) {
    return all.filter((flow) =>
        (!func || flow.function === func) && (!kind || flow.state === kind) && (!cause || flow.waits.some((wait) => wait.cause === cause))
        && matches(`#${flow.number} ${flow.function} ${flow.user ?? ''} ${flow.trace} ${JSON.stringify(flow.waits)}`, text));
}

/** The requests that are over and that a filter lets through. */
export function requests(all, { text, func, kind, cause }) {
    const kinds = { failed: (it) => it.outcome !== 'success', succeeded: (it) => it.outcome === 'success' };
    return all.filter((it) =>
        (!func || it.function === func) && (!kind || kinds[kind](it)) && (!cause || it.outcome === cause)
        && matches(`#${it.number} ${it.function} ${it.user ?? ''} ${it.rid ?? ''} ${it.trace} ${it.outcome} ${it.steps}`, text));
}

/** The refused requests that a filter lets through. */
export function refused(all, { text, func, cause }) {
    return all.filter((it) =>
        (!func || it.function === func) && (!cause || it.reason === cause)
        && matches(`${it.function} ${it.peer ?? ''} ${it.code} ${it.text ?? ''}`, text));
}

/** The choices of each view: of states, and of causes. */
export const CHOICES = {
    flows: {
        kinds: { '': 'All states', running: 'Running', undoing: 'Undoing' },
        causes: ['All causes', ({ health }) => Object.keys(health.waits)],
    },
    requests: {
        kinds: { '': 'All outcomes', succeeded: 'Succeeded', failed: 'Failed' },
        causes: ['All codes', ({ recent }) => [...new Set(recent.map((it) => it.outcome))].sort()],
    },
    refused: {
        kinds: null,
        causes: ['All reasons', ({ health }) => Object.keys(health.refusals)],
    },
};
