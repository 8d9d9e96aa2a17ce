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

/** Gives each snapshot to `take` until the stream ends. */
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
