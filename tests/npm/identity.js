'use strict';

// An identity provider, the package oidc-provider, and a client of it that shows its tokens to an executor.
//
// usage: node identity.js             serves until its input ends, after it has printed its address
//        node identity.js ISSUER URL  calls with new tokens while keys are rotated, and prints what came of it

const http = require('node:http');
const jose = require('jose');

/** How often keys are rotated, after how many calls. */
const [ROTATIONS, CALLS] = [3, 20];

async function serve() {
    // it warns on the output, whose reader wants the address alone
    console.info = console.error;
    const { Provider } = await import('oidc-provider');
    const keys = [];
    let provider, handle;
    const server = http.createServer();
    const listening = new Promise((done) => server.listen(0, '127.0.0.1', done));
    await listening;
    const address = `127.0.0.1:${server.address().port}`;
    const rotate = async () => {
        const { privateKey } = await jose.generateKeyPair('RS256', { extractable: true });
        // it signs with the first one, and publishes all
        const key = { kid: `key ${keys.length}`, use: 'sig', alg: 'RS256' };
        keys.unshift({ ...(await jose.exportJWK(privateKey)), ...key });
        const resource = { scope: 'call', audience: 'shop', accessTokenFormat: 'jwt' };
        provider = new Provider(`http://${address}`, {
            clients: [{
                client_id: 'page',
                client_secret: 'secret',
                grant_types: ['client_credentials'],
                redirect_uris: [],
                response_types: [],
            }],
            features: {
                clientCredentials: { enabled: true },
                devInteractions: { enabled: false },
                resourceIndicators: {
                    enabled: true,
                    defaultResource: () => 'urn:acme:shop',
                    getResourceServerInfo: () => resource,
                },
            },
            jwks: { keys },
        });
        provider.on('server_error', (_, error) => console.error(error));
        handle = provider.callback();
    };
    await rotate();
    server.on('request', async (request, response) => {
        switch (request.url) {
            case '/rotate':
                await rotate();
                return response.end();
            case '/id-token': {
                const client = await provider.Client.find('page');
                // as for a client with the name of the service
                client.clientId = 'shop';
                const token = new provider.IdToken({ sub: 'ann' }, { client });
                token.scope = 'openid';
                token.set('nonce', 'n');
                return response.end(await token.issue({ use: 'idtoken' }));
            }
            default:
                return handle(request, response);
        }
    });
    console.log(address);
    process.stdin.resume().on('end', () => process.exit());
}

async function call(issuer, url) {
    const token = async () => {
        const response = await fetch(`${issuer}/token`, {
            method: 'POST',
            headers: { authorization: `Basic ${btoa('page:secret')}` },
            body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'call' }),
        });
        const answer = await response.json();
        return answer.access_token ?? Promise.reject(new Error(JSON.stringify(answer)));
    };
    const whoami = async (token) => {
        const response = await fetch(url, {
            method: 'POST',
            headers: { 'content-type': 'application/futoin+json', authorization: `Bearer ${token}` },
            body: '{"f":"conform.secret:1.0:whoami"}',
        });
        return response.json();
    };
    const rotate = () => fetch(`${issuer}/rotate`);
    const [answers, keys] = [[], new Set()];
    const first = await token();
    while (keys.size <= ROTATIONS) {
        // new tokens and an old one, at once
        const tokens = await Promise.all(Array.from({ length: CALLS }, token));
        tokens.forEach((token) => keys.add(jose.decodeProtectedHeader(token).kid));
        answers.push(...(await Promise.all([first, ...tokens].map(whoami))));
        await rotate();
    }
    const idToken = await (await fetch(`${issuer}/id-token`)).text();
    return {
        typ: jose.decodeProtectedHeader(first).typ,
        keys: keys.size,
        answers: answers.length,
        others: answers.filter((answer) => answer.r?.lid !== 'page'),
        id: jose.decodeJwt(idToken),
        by_id: await whoami(idToken),
    };
}

const [issuer, url] = process.argv.slice(2);
(issuer ? call(issuer, url).then((seen) => console.log(JSON.stringify(seen))) : serve()).catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
