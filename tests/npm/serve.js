'use strict';

// Serves functions of the `conform.*` interfaces with the released FutoIn executor, over HTTP and
// WebSocket, to the users of the conformance suite.
//
// usage: node serve.js SPEC_DIR...
// Prints its address as a line; ends with its input.

const http = require('http');
const $as = require('futoin-asyncsteps');
const { AdvancedCCM } = require('futoin-invoker');
const NodeExecutor = require('futoin-executor/NodeExecutor');
const LegacySecurityProvider = require('futoin-executor/LegacySecurityProvider');

const specDirs = process.argv.slice(2);
const server = http.createServer();
let last = 0;

const main = {
    echo: (asi, reqinfo) => {
        const { msg, n, opt } = reqinfo.params();
        asi.success({ msg, n, opt });
    },
    fail: (asi, reqinfo) => {
        const { code } = reqinfo.params();
        asi.error(code, `Details of ${code}`);
    },
    notify: (asi, reqinfo) => {
        last = reqinfo.params().v;
    },
    lastNotify: (asi, reqinfo) => reqinfo.result({ v: last }),
    answer: (asi, reqinfo) => reqinfo.result(42),
    words: (asi, reqinfo) => reqinfo.result(['ab', 'cd']),
};
const secret = {
    whoami: (asi, reqinfo) => {
        const { SECURITY_LEVEL } = reqinfo.info;
        reqinfo.result({ lid: null, gid: null, seclvl: SECURITY_LEVEL });
    },
    priv: (asi, reqinfo) => reqinfo.result({ ok: true }),
};
const signed = {
    sum: (asi, reqinfo) => {
        const { a, b } = reqinfo.params();
        reqinfo.result({ sum: a + b, seclvl: reqinfo.info.SECURITY_LEVEL });
    },
};

$as()
    .add(
        (asi) => {
            const ccm = new AdvancedCCM({ specDirs });
            const securityProvider = new LegacySecurityProvider(asi, ccm);
            securityProvider.addUser('user', 'pass', {});
            securityProvider.addUser('hmacuser', Buffer.from('MyLongTestSecretKey'), {});
            asi.add((asi) => {
                const options = { specDirs, httpServer: server, httpPath: '/ftn/' };
                const executor = new NodeExecutor(ccm, { ...options, securityProvider });
                executor.register(asi, 'conform.main:1.2', main, specDirs);
                executor.register(asi, 'conform.secret:1.0', secret, specDirs);
                executor.register(asi, 'conform.signed:1.0', signed, specDirs);
            });
            asi.add((_asi) => {
                server.listen(0, '127.0.0.1', () => {
                    const { address, port } = server.address();
                    console.log(`${address}:${port}`);
                });
            });
        },
        (asi, code) => {
            console.error(`${code}: ${asi.state.error_info}`, asi.state.last_exception);
            process.exit(1);
        },
    )
    .execute();

process.stdin.on('end', () => process.exit()).resume();
