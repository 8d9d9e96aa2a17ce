// Orders, and shows what the order emits. An order whose connection is lost is made again with its key, which gets the first
// answer, and goes on behind the last event if orders are durable.
'use strict';

const form = document.querySelector('form');
const list = document.querySelector('ol');

function show(event, data) {
    const line = document.createElement('li');
    line.textContent = `${event}: ${data}`;
    list.append(line);
}

/** Makes the order; whether it is known how it ended. */
async function order(body, headers) {
    const response = await fetch('/ftn/demo.shop/1.0/order', { method: 'POST', headers, body });
    const isStream = response.headers.get('content-type').startsWith('text/event-stream');
    if (!isStream) {
        show(response.status, await response.text());
        return response.status !== 503;
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ;) {
        const { done, value } = await reader.read();
        if (done) return false;
        const events = (text + value).split('\n\n');
        text = events.pop();
        for (const lines of events) {
            const { id, event, data } = Object.fromEntries(lines.split('\n').map((line) => line.split(/: ?(.*)/)));
            if (event) show(event, data);
            if (id) headers['last-event-id'] = id;
            if (event === 'result' || event === 'error') return true;
        }
    }
}

form.addEventListener('submit', async (submitted) => {
    submitted.preventDefault();
    list.replaceChildren();
    const { customer, sku, qty } = Object.fromEntries(new FormData(form));
    const key = String(crypto.getRandomValues(new Uint32Array(4)));
    const body = JSON.stringify({ customer, items: [{ sku, qty: Number(qty) }], key });
    const headers = { accept: 'text/event-stream', 'content-type': 'application/json', 'idempotency-key': key };
    while (!(await order(body, headers).catch(() => false))) {
        show('lost', 'the order is made again with its key');
        await new Promise((done) => setTimeout(done, 1000));
    }
});
