'use strict';

// Calls every function of the `conform.*` interfaces with the released FutoIn invoker: SimpleCCM and
// AdvancedCCM, each over HTTP and over WebSocket.
//
// usage: node conform.js HOST:PORT SPEC_DIR...
// Prints one JSON object with what each of them got; ends with 1 if anything went wrong that is no
// answer of the server.

const $as = require('futoin-asyncsteps');
const { AdvancedCCM, SimpleCCM } = require('futoin-invoker');
const { ClientExecutor } = require('futoin-executor');

const [address, ...specDirs] = process.argv.slice(2);
const HMAC_KEY = Buffer.from('MyLongTestSecretKey').toString('base64');
const UPLOAD = Buffer.from(Array.from({ length: 60000 }, (_, i) => i & 0xff));

/** Raw results as something that can be compared. */
const legible = (value) =>
    Buffer.isBuffer(value) || value instanceof Uint8Array
        ? { bytes: value.length, hex: Buffer.from(value).subarray(0, 8).toString('hex') }
        : value;

/** All calls of one client over one transport. */
function visit(asi, ccm, { advanced, scheme }) {
    const seen = {};
    const endPoint = `${scheme}://${address}/ftn/`;
    const isSocket = scheme === 'ws';

    const note = (name, body) =>
        asi.add(
            (asi) => {
                body(asi);
                asi.add((asi, result) => {
                    seen[name] = result === undefined ? 'nothing' : legible(result);
                });
            },
            (asi, code) => {
                seen[name] = { error: code, info: asi.state.error_info };
                asi.success();
            },
        );
    const register = (name, iface, credentials = null, options = {}) =>
        note(`register ${name}`, (asi) =>
            ccm.register(asi, name, iface, endPoint, credentials, {
                limitZone: 'unlimited',
                retryCount: 0,
                ...options,
            }),
        );
    const call = (iface, func, params, { as = func, upload } = {}) =>
        note(`${iface}.${as}`, (asi) => ccm.iface(iface).call(asi, func, params, upload));

    register('main', 'conform.main:1.2');
    call('main', 'echo', { msg: 'hi' });
    call('main', 'echo', { msg: '\u00e9\u20ac\ud83d\ude00', n: 7, opt: 'x' }, { as: 'echo all' });
    call('main', 'echo', { msg: 'x'.repeat(1025) }, { as: 'echo long' });
    call('main', 'types', {
        b: true, i: -5, si: 10, r: 1.5, s: '', w: 'word', c: 'a123b', l: [1, 2], ws: ['ab'],
        p: { x: 1, y: 2 }, cm: { k: 1 }, e: 7, f: ['r', 2], id: 'word', uid: 1000, m: { k: [] },
        a: [null], x: { y: 'z' },
    });
    call('main', 'types', { si: 11 }, { as: 'types wrong' });
    call('main', 'variant', { v: 'text' });
    call('main', 'shortcut', { a: 1, b: 'c' });
    call('main', 'fail', { code: 'MyError' });
    call('main', 'fail', { code: 'OTHER_ERROR', later: true }, { as: 'fail later' });
    call('main', 'fail', { code: 'Undeclared' }, { as: 'fail undeclared' });
    call('main', 'crash', {});
    call('main', 'slow', { ms: 5 });
    call('main', 'slowHeavy', { ms: 5 });
    call('main', 'slow', { ms: 1500 }, { as: 'slow timeout' });
    call('main', 'big', { size: 10 });
    call('main', 'bigIn', { data: 'four' });
    call('main', 'notify', { v: 5 });
    call('main', 'lastNotify', {});
    for (const func of ['answer', 'zero', 'nope', 'blank', 'words']) call('main', func, {});
    for (const kind of ['missing', 'extra', 'type']) {
        call('main', 'badResult', { kind }, { as: `badResult ${kind}` });
    }
    call('main', 'missingImpl', {});
    call('main', 'priv', {});
    call('main', 'channelInfo', {});
    if (isSocket) call('main', 'channelInfo', {}, { as: 'channelInfo again' });
    if (!isSocket) call('main', 'httpInfo', {});
    call('main', 'upload', { name: 'a b&c', n: 3 }, { upload: UPLOAD });
    call('main', 'upload', { name: 'empty' }, { as: 'upload nothing', upload: '' });
    if (!isSocket || advanced) {
        call('main', 'download', { n: 60000 });
        call('main', 'download', { n: -1 }, { as: 'download failing' });
    } else {
        call('main', 'download', { n: 10 }, { as: 'download in a frame' });
    }
    call('main', 'pipe', { add: 1 }, { upload: UPLOAD });
    if (!advanced) call('main', 'answer', {}, { as: 'upload for nobody', upload: 'x' });

    for (const coder of ['JSON', 'MPCK']) {
        register(coder, 'conform.main:1.2', null, { coder });
        call(coder, 'echo', { msg: coder });
        call(coder, 'fail', { code: 'MyError' });
    }
    register('bin', 'conform.bin:1.0', null, advanced ? {} : { coder: 'MPCK' });
    note('bin.reverse', (asi) => {
        ccm.iface('bin').call(asi, 'reverse', { blob: Buffer.from([1, 2, 255]) });
        asi.add((asi, { blob, len }) => asi.success({ blob: legible(blob), len }));
    });

    register('derived', 'conform.derived:1.1');
    call('derived', 'hello', { name: 'you' });
    call('derived', 'hello', { name: 'nobody' }, { as: 'hello nobody' });
    call('derived', 'bye', {});
    register('secret', 'conform.secret:1.0', 'user:pass');
    call('secret', 'whoami', {});
    call('secret', 'priv', {});
    register('stranger', 'conform.secret:1.0', 'user:wrong');
    call('stranger', 'whoami', {});
    register('secure', 'conform.secure:1.0', null, { secureChannel: true });
    call('secure', 'hello', {});
    if (advanced) {
        for (const hmacAlgo of ['MD5', 'SHA224', 'SHA256', 'SHA384', 'SHA512']) {
            const options = { hmacKey: HMAC_KEY, hmacAlgo };
            register(hmacAlgo, 'conform.signed:1.0', '-hmac:hmacuser', options);
            call(hmacAlgo, 'sum', { a: 1, b: 2 });
        }
    }
    register('ping', 'futoin.anonping:1.0');
    call('ping', 'ping', { echo: 123 });
    if (isSocket) bidirectional(asi, ccm, { register, call, note });
    call('main', 'stats', {});
    asi.add((asi) => {
        ccm.close();
        asi.success(seen);
    });
}

/** A subscription: the server calls us five times, and sums up what we answer. */
function bidirectional(asi, ccm, { register, call, note }) {
    const executor = new ClientExecutor(ccm, { specDirs });
    const events = [];
    let complete = null;
    executor.register(asi, 'conform.events:1.0', {
        event: (asi, reqinfo) => {
            events.push(reqinfo.params().n);
            reqinfo.result({ ack: 10 });
            if (events.length === 5) complete();
        },
    });
    register('bidi', 'conform.bidi:1.0', null, { executor });
    note('bidi.events', (asi) => {
        asi.setTimeout(10000);
        const done = new Promise((resolve) => (complete = resolve));
        ccm.iface('bidi').call(asi, 'subscribe', { count: 5 });
        asi.await(done);
        asi.add((asi) => asi.success(events.join(' ')));
    });
    // the last answer may still be on its way
    note('bidi.acks', (asi) => {
        asi.setTimeout(10000);
        asi.loop((asi) => {
            ccm.iface('bidi').call(asi, 'acks', {});
            asi.add((asi, acks) => {
                if (acks.sum === 50) asi.break();
            });
        });
        asi.add((asi) => asi.success('50'));
    });
}

const summary = {};
const flow = $as();
for (const advanced of [false, true]) {
    for (const scheme of ['http', 'ws']) {
        flow.add(
            (asi) => {
                const CCM = advanced ? AdvancedCCM : SimpleCCM;
                visit(asi, new CCM(advanced ? { specDirs } : {}), { advanced, scheme });
                asi.add((asi, seen) => {
                    summary[`${CCM.name} ${scheme}`] = seen;
                });
            },
            (asi, code) => {
                console.error(`${code}: ${asi.state.error_info}`, asi.state.last_exception);
                process.exitCode = 1;
            },
        );
    }
}
flow.add((_asi) => {
    console.log(JSON.stringify(summary));
    process.exit();
});
flow.execute();
