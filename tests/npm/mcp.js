'use strict';

// Calls tools with the official clients of the Model Context Protocol: the one that most programs have, and its
// successor, with the newest version of the protocol.
//
// usage: node mcp.js cancel|shop|tools ADDRESS [newest]
// Prints one JSON object: what it got.

const { Ajv2020 } = require('ajv/dist/2020');

const [mode, address, newest] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = newest
    ? require('@modelcontextprotocol/client')
    : { ...require('@modelcontextprotocol/sdk/client/index.js'), ...require('@modelcontextprotocol/sdk/client/streamableHttp.js') };

/** A client with this header `Authorization`. */
async function connected(authorization) {
    const headers = authorization ? { Authorization: authorization } : {};
    const transport = new StreamableHTTPClientTransport(new URL(`http://${address}/mcp`), { requestInit: { headers } });
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
    await client.connect(transport);
    return client;
}

/** The result of a tool, the text of its error, or the code of the client's; structured content is what the text says, too. */
async function call(client, name, args, options) {
    try {
        const rest = newest ? [options] : [undefined, options];
        const { isError, content, structuredContent } = await client.callTool({ name, arguments: args }, ...rest);
        const text = content.map((part) => part.text).join();
        if (isError) return text;
        if (structuredContent && JSON.stringify(structuredContent) !== text) return { structuredContent, text };
        return structuredContent ?? { text };
    } catch (error) {
        return error.code ?? error.name;
    }
}

/** The tools, each with the parameters it needs; their schemas are valid, and strict. */
async function listed(client) {
    const { tools } = await client.listTools();
    const ajv = new Ajv2020({ strict: true, strictTypes: false, allowUnionTypes: true });
    const of = ({ name, description, inputSchema, outputSchema, annotations }) => {
        ajv.compile(inputSchema);
        if (outputSchema) ajv.compile(outputSchema);
        return [name, !!description, inputSchema.required, inputSchema.additionalProperties, outputSchema?.required, annotations];
    };
    return tools.map(of);
}

async function ftn(path, params) {
    const query = new URLSearchParams(params);
    return (await fetch(`http://${address}/ftn/${path}?${query}`, { method: 'POST' })).json();
}

/** An order that is cancelled while the bank is asked, and what is left of it. */
async function cancel() {
    const client = await connected();
    await ftn('demo.shop/1.0/restock', { sku: 'tea', count: 5, price: 250 });
    const stop = new AbortController();
    const steps = [];
    const onprogress = ({ message }) => {
        steps.push(message);
        if (/authorize|capture/.test(message)) stop.abort();
    };
    const order = { customer: 'ann', items: [{ sku: 'tea', qty: 4 }] };
    const said = await call(client, 'order', order, { signal: stop.signal, onprogress });
    const { r } = await ftn('asyncsteps.jobs/1.0/list', { function: 'demo.shop:1.0:order' });
    const { uid } = r.jobs.at(-1);
    let job;
    do job = (await ftn('asyncsteps.jobs/1.0/result', { uid, wait: '10000' })).r;
    while (job.state !== 'ended');
    return {
        said,
        wasSeen: steps.some((step) => /authorize|capture/.test(step)),
        error: job.error,
        orders: await call(client, 'list', { customer: 'ann' }),
    };
}

async function shop() {
    const client = await connected();
    return {
        server: client.getServerVersion(),
        tools: await listed(client),
        tooMuch: await call(client, 'order', { customer: 'ann', items: [{ sku: 'tea', qty: 6 }] }),
        wrong: await call(client, 'stock', { sku: 'not a SKU' }),
        missing: await call(client, 'stock', {}),
        noTool: await call(client, 'restock', { sku: 'tea', count: 1 }),
        ordered: await call(client, 'order', { customer: 'ann', items: [{ sku: 'tea', qty: 4 }] }),
        stock: await call(client, 'stock', { sku: 'tea' }),
    };
}

/** A call of a function that is no job, cancelled once it has begun. */
async function undone(client) {
    const stop = new AbortController();
    const held = call(client, 'hold', {}, { signal: stop.signal });
    while ((await call(client, 'held', {})).text !== '1');
    stop.abort();
    const said = await held;
    while ((await call(client, 'held', {})).text !== '0');
    return said;
}

async function tools() {
    const [ann, someone] = [await connected(`Basic ${btoa('ann:secret')}`), await connected()];
    const wrong = await connected(`Basic ${btoa('ann:wrong')}`);
    return {
        ann: await call(ann, 'whoami', {}),
        nobody: await call(someone, 'whoami', {}),
        wrong: await call(wrong, 'whoami', {}),
        undone: await undone(someone),
        // another client with the same ids cancels nothing of this one
        twice: await Promise.all([undone(someone), call(ann, 'whoami', {})]),
        none: await call(someone, 'forget', {}),
    };
}

({ cancel, shop, tools })[mode]().then(
    (seen) => {
        console.log(JSON.stringify(seen));
        process.exit(0);
    },
    (error) => {
        console.error(error);
        process.exit(1);
    },
);
