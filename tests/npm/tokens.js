'use strict';

// Signs tokens with the package jose, and shows them to an executor.
//
// usage: node tokens.js             prints the keys of an issuer: `private`, and what it publishes
//        node tokens.js URL PRIVATE  prints what requests with tokens of each key get, and a token

const jose = require('jose');

const ALGORITHMS = ['HS256', 'HS512', 'RS256', 'RS384', 'PS256', 'ES256', 'ES384', 'EdDSA'];

async function keys() {
    const all = [];
    for (const alg of ALGORITHMS) {
        const made = alg.startsWith('HS')
            ? { secret: await jose.generateSecret(alg, { extractable: true }) }
            : await jose.generateKeyPair(alg, { extractable: true });
        const jwk = async (key) => ({ ...(await jose.exportJWK(key)), kid: alg, alg, use: 'sig' });
        const { secret, privateKey = secret, publicKey = secret } = made;
        all.push({ private: await jwk(privateKey), public: await jwk(publicKey) });
    }
    return {
        private: all.map((key) => key.private),
        published: { keys: all.map((key) => key.public) },
    };
}

async function call(url, keys) {
    const whoami = async (token) => {
        const response = await fetch(url, {
            method: 'POST',
            headers: {
                'content-type': 'application/futoin+json',
                ...(token && { authorization: `Bearer ${token}` }),
            },
            body: '{"f":"conform.secret:1.0:whoami"}',
        });
        return response.json();
    };
    const token = async (jwk, change) =>
        new jose.SignJWT({ roles: ['clerk'] })
            .setProtectedHeader({ alg: jwk.alg, kid: jwk.kid })
            .setSubject(`ann by ${jwk.alg}`)
            .setIssuer('https://id.test/')
            .setAudience(change.audience ?? ['bank', 'shop'])
            .setExpirationTime(change.expires ?? '5m')
            .sign(await jose.importJWK(jwk, jwk.alg));
    const seen = { anonymous: await whoami(), token: await token(keys[0], {}) };
    for (const jwk of keys) {
        seen[jwk.alg] = await whoami(await token(jwk, {}));
        seen[`${jwk.alg} for another`] = await whoami(await token(jwk, { audience: 'bank' }));
        seen[`${jwk.alg} of yesterday`] = await whoami(await token(jwk, { expires: '-1d' }));
    }
    return seen;
}

const [url, known] = process.argv.slice(2);
(url ? call(url, JSON.parse(known)) : keys())
    .then((summary) => console.log(JSON.stringify(summary)))
    .catch((error) => {
        console.error(error);
        process.exitCode = 1;
    });
