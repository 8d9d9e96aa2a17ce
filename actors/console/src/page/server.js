// The server of the page: a stream of snapshots, the steps of a request, and an end to one.

const TOKEN = 'asyncsteps-console-token';

/** The console wants a token, or another one. */
export class NoToken extends Error {}

export function setToken(token) {
    sessionStorage.setItem(TOKEN, token);
}

export function hasToken() {
    return Boolean(sessionStorage.getItem(TOKEN));
}

async function ask(path, options = {}) {
    const headers = { ...options.headers };
    const token = sessionStorage.getItem(TOKEN);
    if (token) headers.authorization = `Bearer ${token}`;
    const answer = await fetch(`/console/${path}`, { ...options, headers, cache: 'no-store' });
    if (answer.status === 401) throw new NoToken();
    return answer;
}

/** Gives each snapshot to `take` until the stream ends, which it does after half a minute. */
export async function watch(take) {
    const answer = await ask('live');
    if (!answer.ok) throw new Error(await answer.text());
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
        const { value, done } = await reader.read();
        if (done) return;
        const events = (rest + value).split('\n\n');
        rest = events.pop();
        // the page shows the last one only, if it was slow
        if (events.length > 0) take(JSON.parse(events.at(-1).slice('data: '.length)));
    }
}

/** The oldest flows in flight with this text in their function and this cause of a wait, if any. */
export async function flows(func, cause) {
    const answer = await ask(`flows?${new URLSearchParams({ function: func, cause })}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
}

/** The newest requests that are kept and that the filter lets through. */
export async function recent(wanted) {
    const answer = await ask(`recent?${new URLSearchParams(wanted)}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
}

/** The plan of a function with what is known of its steps; `null` if it is not hosted. */
export async function plan(func) {
    const answer = await ask(`plan?${new URLSearchParams({ function: func })}`);
    if (answer.status === 404) return null;
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
}

/** The nodes of the fabric. */
export async function nodes() {
    const answer = await ask('nodes');
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
}

/** The figures of the last five minutes, a part of a snapshot for each second. */
export async function history() {
    const answer = await ask('history');
    return answer.ok ? answer.json() : [];
}

/** The entities of this process. */
export async function entities() {
    const answer = await ask('entities');
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
}

/** Durable requests of a state, if one is named, from a place in the list on, or with this uid, key or user. */
export async function durable(state, after, text) {
    const answer = await ask(`durable?${new URLSearchParams({ state, after, text })}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
}

/** A durable request with what is recorded of it; `null` if there is none. */
export async function durableRequest(uid) {
    const answer = await ask(`durable/${uid}`);
    return answer.ok ? answer.json() : null;
}

/** Cancels a durable request or lets it go on; gives whether that was done, and the error if not. */
export async function orderDurable(uid, order) {
    const headers = { 'content-type': 'application/json' };
    const answer = await ask(`durable/${uid}/${order}`, { method: 'POST', headers, body: '{}' });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
}

/** The steps of a request; `null` if it is not known any more. */
export async function steps(number) {
    const answer = await ask(`steps/${number}`);
    return answer.ok ? answer.json() : null;
}

/** Cancels a request; gives whether there was one to cancel. */
export async function cancel(number) {
    const headers = { 'content-type': 'application/json' };
    const answer = await ask(`cancel/${number}`, { method: 'POST', headers, body: '{}' });
    return answer.ok && (await answer.json()).cancelled;
}
