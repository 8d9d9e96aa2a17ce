// Calls the demo shop, and is called by the conformance server, with the generated clients. The lines with
// `@ts-expect-error` are programs that must not compile.

import { CallError, HttpConnection, SocketConnection, codeOf } from './futoin.js';
import type { Connection, WatchOptions } from './futoin.js';
import * as shop from './demo.shop-1.js';
import * as bidi from './conform.bidi-1.js';
import * as events from './conform.events-1.js';
import * as main from './conform.main-1.js';

const failure = async (call: Promise<unknown>): Promise<string> => {
    try {
        return JSON.stringify(await call);
    } catch (error) {
        return error instanceof CallError ? error.message : `no CallError: ${error}`;
    }
};

/** An order of a customer who wants more than there is. */
async function order(calls: shop.Functions, sku: shop.Sku): Promise<string> {
    try {
        const { total } = await calls.order({ customer: 'ann', items: [{ sku, qty: 99 }] });
        return `paid ${total}`;
    } catch (error) {
        const code = codeOf<shop.Errors['order']>(error);
        switch (code) {
            case 'OutOfStock':
                return `${sku} is out of stock`;
            case 'InvalidRequest':
                return 'our mistake';
            // @ts-expect-error: no function throws this
            case 'OutOfStok':
                return '';
            default:
                throw error;
        }
    }
}

async function business(connection: Connection, sku: string) {
    const calls = shop.client(connection);
    const seen = {
        restock: await calls.restock({ sku, count: 5, price: 250 }),
        order: await calls.order({ customer: sku, items: [{ sku, qty: 4 }] }),
        list: (await calls.list({ customer: sku })).orders.length,
        stock: (await calls.stock({ sku })).stock.toFixed(1),
        tooMuch: await order(calls, sku),
        unknown: await failure(calls.stock({ sku: 'none' })),
        // limits have no types
        wrong: await failure(calls.stock({ sku: 'not a SKU' })),
        // @ts-expect-error: a number is no SKU
        mistyped: await failure(calls.stock({ sku: 7 })),
    };
    // @ts-expect-error: the customer is missing
    const missing = () => calls.order({ items: [] });
    // @ts-expect-error: there is no such function
    const none = () => calls.sell({});
    // @ts-expect-error: the result has no such field
    const field = async () => (await calls.stock({ sku })).price;
    void [missing, none, field];
    return seen;
}

/** Business over HTTP and over a WebSocket, with the end points of a host. */
export async function sell(host: string) {
    const socket = await SocketConnection.open(`ws://${host}/ftn/`);
    const http = new HttpConnection(`http://${host}/ftn/`, { headers: async () => ({ 'x-by': 'test' }) });
    const seen = { http: await business(http, 'over-http'), ws: await business(socket, 'over-ws') };
    await socket.close();
    const closed = await failure(shop.client(socket).stock({ sku: 'apple' }));
    return { ...seen, closed };
}

/** Orders that are watched, over connections that are lost behind each event, and without an end. */
export async function watch(host: string) {
    const http = new HttpConnection(`http://${host}/ftn`);
    const sku = 'watched';
    await shop.client(http).restock({ sku, count: 5, price: 250 });
    const order = async (customer: string, options?: WatchOptions) => {
        const seen: unknown[] = [];
        try {
            for await (const it of shop.events(http).order({ customer, items: [{ sku, qty: 1 }] }, options)) {
                // @ts-expect-error: not each has a result
                void it.result;
                seen.push(it.type === 'emit' ? it.event : it);
            }
        } catch (error) {
            seen.push(error instanceof CallError ? error.message : `no CallError: ${error}`);
        }
        return seen;
    };
    const real = globalThis.fetch;
    const behind: (string | null)[] = [];
    /** The answer until its first event, for the next `times` calls. */
    const cut = (times: number) => async (...args: Parameters<typeof fetch>) => {
        const response = await real(...args);
        behind.push(new Headers(args[1]?.headers).get('last-event-id'));
        if (--times < 0) return response;
        const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
        let text = '';
        while (!text.includes('\n\n')) text += (await reader.read()).value ?? '';
        await reader.cancel();
        return new Response(`${text.split('\n\n')[0]}\n\nid: 9`, { headers: response.headers });
    };
    const whole = await order('ann');
    globalThis.fetch = cut(2);
    const lost = await order('bob', { key: 'one' });
    globalThis.fetch = cut(1);
    const lostWithoutKey = await order('ann');
    const headers = { 'content-type': 'text/event-stream' };
    globalThis.fetch = async () => new Response('event: lost\ndata: 3\n\n:\n\nevent: result\ndata: {"r":7}\n\n', { headers });
    const slow = await order('ann');
    globalThis.fetch = real;
    const known = await order('bob', { key: 'one' });
    const refused = await order('');
    const aborted = await order('ann', { signal: AbortSignal.abort(new CallError('Late')) });
    for await (const it of shop.events(http).order({ customer: 'ann', items: [{ sku, qty: 1 }] })) {
        if (it.type === 'emit') break;
    }
    return { whole, lost, behind, lostWithoutKey, slow, known, refused, aborted };
}

/** What calls come to while a service is away for some attempts, and how many each takes. */
async function repeats() {
    const real = globalThis.fetch;
    const seen: Record<string, unknown> = {};
    for (const [away, code] of [[2, 'ConnectError'], [9, 'ConnectError'], [2, 'CommError']] as const) {
        let made = 0;
        globalThis.fetch = async () => {
            made += 1;
            return new Response(JSON.stringify(made <= away ? { e: code } : { r: { n: 1 } }));
        };
        const result = await failure(new HttpConnection('http://away/').call('a.b:1.0:c', {}));
        seen[`${away} ${code}`] = `${result} ${made}`;
    }
    globalThis.fetch = real;
    return seen;
}

/** Numbers that JavaScript or JSON does not have, to a service and from it. */
async function numbers(connection: Connection) {
    const calls = main.client(connection);
    const seen: unknown[] = [(await calls.types({ a: [2 ** 53, -0.5, 1e300, -0] })).got.a];
    for (const a of [2 ** 60, NaN]) seen.push(await failure(calls.types({ a: [a] })));
    const real = globalThis.fetch;
    for (const n of ['9007199254740993', '"9007199254740993", "m": 1e400', '"\\"9007199254740993"']) {
        globalThis.fetch = async () => new Response(`{"r":{"n":${n}}}`);
        seen.push(await failure(new HttpConnection('http://far/').call('a.b:1.0:c', {})));
    }
    globalThis.fetch = real;
    return seen;
}

/** A WebSocket that ends is opened again, and subscribed again; waits end when their callers want. */
async function again(host: string) {
    const Real = globalThis.WebSocket;
    const sockets: WebSocket[] = [];
    globalThis.WebSocket = class extends Real {
        constructor(...args: ConstructorParameters<typeof Real>) {
            super(...args);
            sockets.push(this);
        }
    };
    const got: number[] = [];
    const opened = async (socket: SocketConnection) => {
        events.serve(socket, { event: async ({ n }) => ({ ack: got.push(n) }) });
        await bidi.client(socket).subscribe({ count: 1 });
    };
    const socket = await SocketConnection.open(`ws://${host}/ftn/`, { opened });
    const calls = main.client(socket);
    const waits = failure(calls.slow({ ms: 60_000 }));
    // it is sent before these
    while (got.length < 1) await calls.answer();
    sockets[0]?.close(1000);
    const lost = await waits;
    // it is away, and the call waits for it
    const echo = (await calls.echo({ msg: 'again' })).msg;
    while (got.length < 2) await calls.answer();
    const made = sockets.length;
    globalThis.WebSocket = Real;
    const reason = new CallError('Late', 'not by the server');
    const late = async (connection: Connection, ended: AbortSignal) =>
        failure(main.client(connection).slow({ ms: 60_000 }, { signal: ended }));
    const ends = new AbortController();
    const http = new HttpConnection(`http://${host}/ftn/`);
    const all = [late(socket, ends.signal), late(http, ends.signal)];
    ends.abort(reason);
    all.push(late(socket, ends.signal), late(http, ends.signal));
    const aborted = [...new Set(await Promise.all(all))];
    sockets.at(-1)?.close();
    const waiting = failure(calls.answer());
    await socket.close();
    await waiting;
    return { lost, echo, made, got, aborted, closed: await failure(calls.answer()) };
}

/** Each type of FTN3, and calls of the server in return. */
export async function talk(host: string) {
    const socket = await SocketConnection.open(`ws://${host}/ftn/`);
    const calls = main.client(socket);
    const seen = {
        echo: await calls.echo({ msg: 'hé' }),
        notify: await failure(calls.notify({ v: 7 })),
        answer: (await calls.answer()) + 1,
        words: (await calls.words()).join(' '),
        error: await failure(calls.fail({ code: 'MyError' })),
        hidden: await failure(calls.fail({ code: 'OtherError' })),
        types: await calls.types({
            p: { x: 1, y: 2 }, cm: { a: 1 }, e: 7, f: ['r', 1], id: 'word', l: [1], x: [null], uid: null,
        }),
        defaults: Object.keys((await calls.types()).got).length,
        variant: (await calls.variant({ v: 'text' })).v,
    };
    // @ts-expect-error: no item of the enum
    const item = () => calls.types({ e: 8 });
    // @ts-expect-error: it is called by its URL
    const raw = () => calls.upload({ name: 'x' });
    void [item, raw];
    const got: number[] = [];
    events.serve(socket, {
        event: async ({ n }) => {
            got.push(n);
            if (n === 2) throw new CallError('MyError', 'two');
            if (n === 3) throw new Error('not for the other end');
            return { ack: 10 * n };
        },
    });
    const pushes = bidi.client(socket);
    await pushes.subscribe({ count: 4 });
    while (got.length < 4) await pushes.acks();
    // 1 and 4
    let { sum } = await pushes.acks();
    while (sum < 50) ({ sum } = await pushes.acks());
    const slow = failure(calls.slow({ ms: 60_000 }));
    await socket.close();
    const repeated = await repeats();
    const opened = await again(host);
    const signed = await SocketConnection.open(`ws://${host}/ftn/`, { token: async () => 'a.b.c' });
    const token = await failure(main.client(signed).echo({ msg: '' }));
    await signed.close();
    const exact = await numbers(new HttpConnection(`http://${host}/ftn/`));
    return { ...seen, again: repeated, opened, token, exact, got, sum, slow: await slow, gone: await failure(SocketConnection.open('ws://127.0.0.1:1/')) };
}
