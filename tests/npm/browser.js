'use strict';

// Calls the `conform.*` interfaces from a page in a real browser: over WebSocket, and over HTTP from
// another site.
//
// usage: node browser.js HOST:PORT BROWSER
// Prints one JSON object with what the page got.

const { chromium } = require('playwright-core');

const [address, executablePath] = process.argv.slice(2);

/** Runs in the page. */
async function visit(address) {
    const socket = new WebSocket(`ws://${address}/ftn/`);
    socket.binaryType = 'arraybuffer';
    const waiting = new Map();
    const events = [];
    const kinds = [];
    socket.onmessage = ({ data }) => {
        const text = typeof data === 'string' ? data : new TextDecoder().decode(data);
        const message = JSON.parse(text);
        kinds.push(typeof data);
        if ('f' in message) {
            events.push(message.p.n);
            socket.send(JSON.stringify({ r: { ack: 10 }, rid: message.rid }));
        } else {
            waiting.get(message.rid)(message);
        }
    };
    await new Promise((resolve, reject) => {
        socket.onopen = resolve;
        socket.onerror = () => reject(new Error('the WebSocket failed'));
    });
    let calls = 0;
    const call = (f, p, asBytes) => {
        const rid = `C${++calls}`;
        const text = JSON.stringify({ f, p, rid });
        socket.send(asBytes ? new TextEncoder().encode(text) : text);
        return new Promise((resolve) => waiting.set(rid, resolve));
    };
    const seen = {};
    seen.text = await call('conform.main:1.2:echo', { msg: 'h\u00e9' }, false);
    seen.bytes = await call('conform.main:1.2:echo', { msg: 'h\u00e9' }, true);
    seen.kinds = [...kinds];
    seen.error = await call('conform.main:1.2:fail', { code: 'MyError' }, false);
    const many = [30, 1].map((ms) => call('conform.main:1.2:slow', { ms }, true));
    seen.first = await Promise.race(many);
    seen.all = (await Promise.all(many)).length;
    await call('conform.bidi:1.0:subscribe', { count: 3 }, false);
    do {
        seen.acks = await call('conform.bidi:1.0:acks', {}, false);
    } while (seen.acks.r.sum < 30);
    seen.events = events;
    const closed = new Promise((resolve) => (socket.onclose = resolve));
    socket.close(1000);
    const { code, wasClean } = await closed;
    seen.closed = { code, wasClean };

    const init = { method: 'POST', body: '{"f":"conform.main:1.2:answer","p":{}}' };
    init.headers = { 'content-type': 'application/futoin+json' };
    const answer = await fetch(`http://${address}/ftn/`, init);
    seen.http = { status: answer.status, message: await answer.json() };
    return seen;
}

(async () => {
    // root may run this, and a page that was made up has no network that it could be near to
    const far = ['LocalNetworkAccessChecks', 'LocalNetworkAccessChecksWebSockets'];
    const args = ['--no-sandbox', `--disable-features=${far}`];
    const browser = await chromium.launch({ executablePath, args });
    try {
        const page = await browser.newPage();
        // a page of another site, so that the browser asks before it calls
        const site = `http://localhost:${address.split(':')[1]}/`;
        await page.route(site, (route) => route.fulfill({ contentType: 'text/html', body: '' }));
        await page.goto(site);
        console.log(JSON.stringify(await page.evaluate(visit, address)));
    } finally {
        await browser.close();
    }
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
