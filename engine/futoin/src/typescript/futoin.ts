// Calls of FutoIn interfaces over HTTP and WebSocket (FTN3, FTN5): what all generated interfaces share.
// Written by ftn3-typescript. It needs `fetch`, and `WebSocket` for a SocketConnection, as browsers and
// Node.js 22 have them.

/** The errors that every function can fail with (FTN3 §1.9.1). */
export type StandardError = 'ConnectError' | 'CommError' | 'UnknownInterface' | 'NotImplemented'
    | 'NotSupportedVersion' | 'Unauthorized' | 'InternalError' | 'InvokerError' | 'InvalidRequest'
    | 'DefenseRejected' | 'PleaseReauth' | 'SecurityError' | 'Timeout';

/** Why a call has no result. */
export class CallError extends Error {
    /** A standard error, or one that the function declares. */
    readonly code: string;
    readonly description: string | undefined;

    constructor(code: string, description?: string) {
        super(description === undefined ? code : `${code}: ${description}`);
        this.name = 'CallError';
        this.code = code;
        this.description = description;
    }
}

/**
 * The code of an error of a call, for a `switch`: `codeOf<Errors['order']>(error)`. `undefined` if it is no
 * CallError.
 */
export function codeOf<Declared extends string>(error: unknown): Declared | StandardError | undefined {
    return error instanceof CallError ? (error.code as Declared | StandardError) : undefined;
}

/** What a call may have beside its parameters. */
export interface CallOptions {
    /**
     * Ends the wait for the result, which fails with the reason of the signal. Over HTTP the server is told, and cancels
     * what can be cancelled; over a WebSocket the call is carried out.
     */
    signal?: AbortSignal;
}

/** What calls functions: the generated `client` takes one. */
export interface Connection {
    /** Calls `interface:version:function`; fails with a CallError. */
    call<Result>(name: string, params: object, options?: CallOptions): Promise<Result>;
}

/** Functions as they are called: each takes options behind its parameters. */
export type Called<Functions> = {
    [Name in keyof Functions]: Functions[Name] extends (...params: infer Params) => infer Result
        ? (...params: [...Params, options?: CallOptions]) => Result
        : never;
};

/** What a call that is watched may have beside its parameters. */
export interface WatchOptions extends CallOptions {
    /** Names a call of a durable function, so that one which is broken off can be made again and goes on. */
    key?: string;
}

/** What comes of a call that is watched: its events, how many were lost because we were slow, and at the end its result. */
export type Watched<Event, Result> =
    | { type: 'emit'; event: Event }
    | { type: 'lost'; count: number }
    | { type: 'result'; result: Result };

/** Functions as they are watched. */
export type Watching<Functions, Events> = {
    [Name in keyof Functions & keyof Events]:
        Functions[Name] extends (...params: infer Params) => Promise<infer Result>
            ? (...params: [...Params, options?: WatchOptions]) => AsyncGenerator<Watched<Events[Name], Result>, void>
            : never;
};

/** How long nothing may come of a call that is watched, in milliseconds: the server writes each 15 seconds. */
const SILENCE = 45_000;

/** How long a call may take, in milliseconds. */
const TIMEOUT = 65_000;

/** The pauses before a call is made again, in milliseconds, up to twice as long by chance. */
const PAUSES = [50, 200, 800];

/**
 * Exchanges messages until the call has a result; again if the other end answers that it was not carried out
 * (ConnectError), as long as `timeout` milliseconds are not over.
 */
async function repeated<Result>(
    timeout: number, signal: AbortSignal | undefined, exchange: (left: number) => Promise<unknown>,
): Promise<Result> {
    const ends = Date.now() + timeout;
    for (const pause of PAUSES) {
        const message = await exchange(ends - Date.now());
        const waits = pause * (1 + Math.random());
        if ((message as Message | null)?.e !== 'ConnectError' || Date.now() + waits >= ends) {
            return resultOf(message) as Result;
        }
        await passed(waits);
        signal?.throwIfAborted();
    }
    return resultOf(await exchange(ends - Date.now())) as Result;
}

function passed(time: number): Promise<void> {
    return new Promise((done) => setTimeout(done, time));
}

export interface HttpOptions {
    /** Headers of each request, such as `authorization`: asked for each time, so that tokens can change. */
    headers?: () => Record<string, string> | Promise<Record<string, string>>;
    /** How long a call may take, in milliseconds: 65,000 unless set. */
    timeout?: number;
}

/**
 * Calls over HTTP, each with a request of its own, to an end point such as `https://shop.example/ftn/`. A call that was
 * not carried out (ConnectError) is made again, up to three times; after CommError it is not known whether it was.
 */
export class HttpConnection implements Connection {
    readonly #url: string;
    readonly #options: HttpOptions;

    constructor(url: string, options: HttpOptions = {}) {
        this.#url = url;
        this.#options = options;
    }

    async call<Result>(name: string, params: object, { signal }: CallOptions = {}): Promise<Result> {
        const { timeout = TIMEOUT } = this.#options;
        return repeated(timeout, signal, (left) => this.#exchange(name, params, left, signal));
    }

    /**
     * Calls `interface:version:function`, and yields what it emits and its result; fails with a CallError. A call with a key
     * that is broken off is made again behind its last event, up to three times in a row. To stop early is to leave.
     */
    async *events<Event, Result>(
        name: string, params: object, { signal, key }: WatchOptions = {},
    ): AsyncGenerator<Watched<Event, Result>, void> {
        const own: Record<string, string> = key === undefined ? {} : { 'idempotency-key': key };
        for (let failed = 0; ; failed++) {
            try {
                for await (const { id, event, data = '' } of this.#stream(name, params, own, signal)) {
                    failed = 0;
                    if (event === 'lost') {
                        yield { type: event, count: Number(data) };
                    } else if (event === 'emit') {
                        yield { type: event, event: resultOf({ r: JSON.parse(data), ...flawOf(data) }) as Event };
                        if (id !== undefined) own['last-event-id'] = id;
                    } else if (event !== undefined) {
                        yield { type: 'result', result: resultOf(messageOf(data)) as Result };
                        return;
                    }
                }
                throw new CallError('CommError', 'the events ended without a result');
            } catch (error) {
                const code = codeOf<'OutcomeUnknown'>(error);
                const goesOn = key !== undefined && (code === 'CommError' || code === 'OutcomeUnknown');
                const pause = goesOn || code === 'ConnectError' ? PAUSES[failed] : undefined;
                if (pause === undefined) throw error;
                await passed(pause * (1 + Math.random()));
            }
        }
    }

    /** The server-sent events of a call, comments too; a message in their place is a result. */
    async *#stream(
        name: string, params: object, own: Record<string, string>, signal?: AbortSignal,
    ): AsyncGenerator<{ id?: string; event?: string; data?: string }, void> {
        const ends = new AbortController();
        let timer: ReturnType<typeof setTimeout> | undefined;
        const listen = () => {
            clearTimeout(timer);
            timer = setTimeout(() => ends.abort(), SILENCE);
        };
        try {
            listen();
            const accept = 'text/event-stream';
            const response = await fetch(`${this.#url.replace(/\/?$/, '/')}${name.replaceAll(':', '/')}`, {
                method: 'POST',
                headers: { accept, 'content-type': 'application/json', ...own, ...(await this.#options.headers?.()) },
                body: written(params),
                signal: AbortSignal.any([ends.signal, ...(signal ? [signal] : [])]),
            });
            if (!response.headers.get('content-type')?.startsWith(accept)) {
                yield { event: 'result', data: await response.text() };
                return;
            }
            const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
            for (let text = ''; ;) {
                const { done, value } = await reader.read();
                if (done) return;
                listen();
                const events = (text + value).split('\n\n');
                text = events.pop() ?? '';
                for (const event of events) {
                    yield Object.fromEntries(event.split('\n').map((line) => line.split(/: ?(.*)/)));
                }
            }
        } catch (error) {
            signal?.throwIfAborted();
            resultOf(error instanceof CallError ? { e: error.code, edesc: error.description } : this.#away(error));
        } finally {
            clearTimeout(timer);
            ends.abort();
        }
    }

    /** The message in place of an answer that did not come. */
    #away(error: unknown): Message {
        // Node.js has the cause, and browsers do not say it
        const cause = (error as { cause?: { code?: string } }).cause;
        const edesc = `${this.#url}: ${cause ?? error}`;
        return { e: cause?.code === 'ECONNREFUSED' ? 'ConnectError' : 'CommError', edesc };
    }

    async #exchange(name: string, params: object, timeout: number, signal?: AbortSignal): Promise<unknown> {
        const { headers } = this.#options;
        const signals = [AbortSignal.timeout(timeout), ...(signal ? [signal] : [])];
        const init = {
            method: 'POST',
            headers: { 'content-type': 'application/futoin+json', ...(await headers?.()) },
            body: written({ f: name, p: params, forcersp: true }),
            signal: AbortSignal.any(signals),
        };
        try {
            const response = await fetch(this.#url, init);
            const edesc = `the answer with the status ${response.status} is no message of FutoIn`;
            return messageOf(await response.text()) ?? { e: 'CommError', edesc };
        } catch (error) {
            signal?.throwIfAborted();
            if (error instanceof DOMException && error.name === 'TimeoutError') throw new CallError('Timeout');
            return this.#away(error);
        }
    }
}

const CLOSED = 'the WebSocket is closed';

type Message = { f?: unknown; p?: unknown; r?: unknown; e?: unknown; edesc?: unknown; rid?: unknown; code?: unknown; detail?: unknown };
type Waiting = { resolve: (message: Message) => void; reject: (error: unknown) => void };
type Served = Record<string, (params: never) => unknown>;

export interface SocketOptions {
    /** How long a call may take, in milliseconds: 65,000 unless set. */
    timeout?: number;
    /**
     * A bearer token, asked for at each connection, so that it can change. It goes with the protocols of the WebSocket,
     * because pages can set no header.
     */
    token?: () => string | Promise<string>;
    /** Is called when the connection was made, and whenever it was made again: what is subscribed belongs here. */
    opened?: (connection: SocketConnection) => void | Promise<void>;
}

/** The pauses before a WebSocket is opened again, in milliseconds: the first and the longest, up to twice as long by chance. */
const AGAIN = [100, 10_000] as const;

/**
 * Calls in both directions over a WebSocket, and again if they were not carried out, as an HttpConnection does. If the
 * WebSocket ends, calls that wait for an answer fail with CommError, and it is opened again until `close`; calls that are
 * made meanwhile wait for that.
 */
export class SocketConnection implements Connection {
    readonly #url: string;
    readonly #options: SocketOptions;
    readonly #waiting = new Map<string, Waiting>();
    readonly #served = new Map<string, Served>();
    /** The WebSocket, once it is open. */
    #socket!: Promise<WebSocket>;
    #isClosed = false;
    #ends = () => {};
    readonly #ended = new Promise<void>((done) => { this.#ends = done; });
    #calls = 0;

    private constructor(url: string, options: SocketOptions) {
        this.#url = url;
        this.#options = options;
    }

    /** Connects to an end point such as `wss://shop.example/ftn/`; fails with ConnectError. */
    static async open(url: string, options: SocketOptions = {}): Promise<SocketConnection> {
        const connection = new SocketConnection(url, options);
        connection.#socket = connection.#connect();
        try {
            await connection.#socket;
            await options.opened?.(connection);
        } catch (error) {
            await connection.close();
            throw error;
        }
        return connection;
    }

    async call<Result>(name: string, params: object, { signal }: CallOptions = {}): Promise<Result> {
        const { timeout = TIMEOUT } = this.#options;
        return repeated(timeout, signal, (left) => this.#exchange(name, params, left, signal));
    }

    async #connect(): Promise<WebSocket> {
        if (typeof WebSocket === 'undefined') throw new CallError('ConnectError', 'Node.js has WebSocket from version 22 on');
        const token = await this.#options.token?.();
        const socket = new WebSocket(this.#url, token === undefined ? [] : ['bearer', token]);
        socket.binaryType = 'arraybuffer';
        await new Promise<void>((open, reject) => {
            socket.onopen = () => open();
            // before Node.js 22 there is no `close` then
            socket.onerror = socket.onclose = () => reject(new CallError('ConnectError', this.#url));
        });
        socket.onmessage = ({ data }) => {
            const message = messageOf(typeof data === 'string' ? data : new TextDecoder().decode(data));
            if (message !== undefined) void this.#take(message, socket);
        };
        socket.onclose = ({ code }) => {
            const failed = new CallError('CommError', `the WebSocket was closed (${code})`);
            this.#waiting.forEach(({ reject }) => reject(failed));
            if (!this.#isClosed) this.#again();
        };
        return socket;
    }

    /** Connects until that succeeds or the connection is closed. */
    #again(): void {
        this.#socket = (async () => {
            for (let pause: number = AGAIN[0]; ; pause = Math.min(2 * pause, AGAIN[1])) {
                await Promise.race([passed(pause * (1 + Math.random())), this.#ended]);
                if (this.#isClosed) throw new CallError('ConnectError', CLOSED);
                const socket = await this.#connect().catch(() => undefined);
                if (socket === undefined) continue;
                if (this.#isClosed) socket.close(1000);
                return socket;
            }
        })();
        this.#socket.then(() => this.#options.opened?.(this)).catch((error) => {
            if (!this.#isClosed) console.error(this.#url, error);
        });
    }

    async #exchange(name: string, params: object, timeout: number, signal?: AbortSignal): Promise<unknown> {
        signal?.throwIfAborted();
        if (this.#isClosed) throw new CallError('ConnectError', CLOSED);
        const rid = `C${++this.#calls}`;
        const message = written({ f: name, p: params, rid, forcersp: true });
        let isOver = false;
        let timer: ReturnType<typeof setTimeout> | undefined;
        let aborted = () => {};
        const answered = new Promise<Message>((resolve, reject) => {
            timer = setTimeout(() => {
                reject(new CallError(this.#waiting.has(rid) ? 'Timeout' : 'ConnectError', 'no answer in time'));
            }, timeout);
            aborted = () => reject(signal?.reason);
            this.#socket.then((socket) => {
                if (isOver) return;
                // it ends, and there will be another one
                if (socket.readyState !== socket.OPEN) return resolve({ e: 'ConnectError', edesc: CLOSED });
                this.#waiting.set(rid, { resolve, reject });
                socket.send(message);
            }, reject);
        });
        signal?.addEventListener('abort', aborted);
        try {
            return await answered;
        } finally {
            isOver = true;
            clearTimeout(timer);
            signal?.removeEventListener('abort', aborted);
            this.#waiting.delete(rid);
        }
    }

    /** Serves the functions of an interface, `name:version`, to the other end: the generated `serve` calls it. */
    serve(iface: string, functions: object): void {
        this.#served.set(withoutMinor(iface), functions as Served);
    }

    /** Ends the connection, in order, and for good. */
    async close(): Promise<void> {
        this.#isClosed = true;
        this.#ends();
        // of one that is opened again there is nothing to wait for
        const socket = await Promise.race([this.#socket, undefined]).catch(() => undefined);
        if (socket === undefined || socket.readyState === socket.CLOSED) return;
        await new Promise<void>((done) => {
            socket.addEventListener('close', () => done());
            socket.close(1000);
        });
    }

    async #take(message: Message, socket: WebSocket): Promise<void> {
        if (typeof message.f !== 'string') {
            this.#waiting.get(String(message.rid))?.resolve(message);
            return;
        }
        const { f, e, edesc } = message;
        const answer = e === undefined ? await this.#carryOut(f, message.p ?? {}) : { e, edesc };
        if (message.rid !== undefined && socket.readyState === socket.OPEN) {
            socket.send(JSON.stringify({ ...answer, rid: message.rid }));
        }
    }

    /** The answer to a call of the other end. */
    async #carryOut(name: string, params: unknown): Promise<Message> {
        const end = name.lastIndexOf(':');
        const served = this.#served.get(withoutMinor(name.slice(0, end)));
        if (served === undefined) {
            return { e: 'UnknownInterface', edesc: `Unknown interface: ${name.slice(0, end)}` };
        }
        const func = name.slice(end + 1);
        const carryOut = func in Object.prototype ? undefined : served[func];
        if (carryOut === undefined) {
            return { e: 'InvalidRequest', edesc: `Unknown interface function: ${func}` };
        }
        try {
            const answer = { r: (await carryOut.call(served, params as never)) ?? {} };
            written(answer);
            return answer;
        } catch (error) {
            if (!(error instanceof CallError)) {
                console.error(name, error);
                return { e: 'InternalError' };
            }
            return { e: error.code, edesc: error.description };
        }
    }
}

/** `name:major` of `name:major.minor`: the versions that serve each other. */
function withoutMinor(iface: string): string {
    return iface.replace(/\.\d+$/, '');
}

/** The message that a text has, with an error if it has a number that JavaScript has not; `undefined` if it has none. */
function messageOf(text: string): Message | undefined {
    try {
        const message: unknown = JSON.parse(text);
        return typeof message === 'object' && message !== null ? { ...message, ...flawOf(text) } : undefined;
    } catch {
        return undefined;
    }
}

/** The error in place of a message that would be altered: with a number that JavaScript has not. */
function flawOf(text: string): Message | undefined {
    if (!/\d{16}|[eE]\+?\d{3}/.test(text)) return undefined;
    const pieces = text.match(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g) ?? [];
    const flaw = pieces.find((piece) => !piece.startsWith('"') && !isExact(piece));
    return flaw === undefined ? undefined : { e: 'CommError', edesc: `JavaScript has no number ${flaw}` };
}

/** Whether the number that a text is read as is just that, if it is an integer. */
function isExact(text: string): boolean {
    const number = Number(text);
    return Number.isFinite(number) && (!/^-?\d+$/.test(text) || BigInt(number) === BigInt(text));
}

/** A message as JSON; fails with a CallError if a number in it would be altered. */
function written(message: object): string {
    return JSON.stringify(message, (_, value: unknown) => {
        if (typeof value === 'number' && !isExact(String(value))) {
            throw new CallError('InvalidRequest', `JSON does not have the number ${value}`);
        }
        return value;
    });
}

function resultOf(message: unknown): unknown {
    // problem details have other names for the same
    const { r, code, detail, e = code, edesc = detail } = (message ?? {}) as Message;
    if (typeof e === 'string') {
        throw new CallError(e, typeof edesc === 'string' ? edesc : undefined);
    }
    if (r === undefined) {
        throw new CallError('CommError', 'the answer is no message of FutoIn');
    }
    return r;
}
