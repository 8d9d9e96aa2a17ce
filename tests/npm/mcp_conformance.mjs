// Runs the server scenarios of `@modelcontextprotocol/conformance`.
//
// usage: node mcp_conformance.mjs ADDRESS
// It fails unless all of them pass but those in `mcp_not_offered.yml`. Names of FutoIn functions have no `_`, as those
// of the suite have: `test_simple_text` calls `testSimpleText`.

import { register } from 'node:module';

// Node.js has it from 22 on, and the suite needs it for other things only
const fs = "export * from 'node:fs'; export const globSync = () => [];";
const hooks = `
    export const resolve = (name, context, next) =>
        name === 'fs' && context.parentURL.includes('/conformance/') ? { url: 'fs:all', shortCircuit: true } : next(name, context);
    export const load = (url, context, next) =>
        url === 'fs:all' ? { format: 'module', source: ${JSON.stringify(fs)}, shortCircuit: true } : next(url, context);
`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);

const url = `http://${process.argv[2]}/mcp`;
const send = globalThis.fetch;

/** Lets the tool with progress end when the suite has seen enough of it. */
function watched() {
    let seen = 0;
    return new TransformStream({
        async transform(chunk, stream) {
            stream.enqueue(chunk);
            seen += new TextDecoder().decode(chunk).split('notifications/progress').length - 1;
            if (seen === 3) await send(url.replace('/mcp', '/ftn/test.tools/1.0/release'), { method: 'POST' });
        },
    });
}

globalThis.fetch = async (to, options) => {
    const message = JSON.parse(options?.body ?? '{}');
    if (message.method !== 'tools/call') return send(to, options);
    const name = message.params.name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
    const body = JSON.stringify({ ...message, params: { ...message.params, name } });
    const answer = await send(to, { ...options, body });
    return name === 'testToolWithProgress' ? new Response(answer.body.pipeThrough(watched()), answer) : answer;
};

process.argv.splice(2, 1, 'server', '--url', url, '--suite', 'all', '--expected-failures', 'mcp_not_offered.yml');
await import('./node_modules/@modelcontextprotocol/conformance/dist/index.js');
