'use strict';

// Generates clients of the demo from its OpenAPI document, by openapi-typescript for openapi-fetch and by
// @hey-api/openapi-ts, compiles them with the programs in `generated`, and runs these.
//
// usage: node generated.js FOLDER SHOP
// SHOP is HOST:PORT. Prints one JSON object with what each program got.

const { execFileSync } = require('child_process');
const fs = require('fs');
const path = require('path');
const { pathToFileURL } = require('url');

const [folder, shop] = process.argv.slice(2);
const bin = (name) => path.join(__dirname, 'node_modules', name);
const run = (program, ...args) =>
    execFileSync(process.execPath, [bin(program), ...args], { cwd: folder, stdio: ['ignore', 2, 2] });

async function main() {
    fs.rmSync(folder, { recursive: true, force: true });
    fs.cpSync(path.join(__dirname, 'generated'), folder, { recursive: true });
    fs.symlinkSync(path.join(__dirname, 'node_modules'), path.join(folder, 'node_modules'));
    const document = await (await fetch(`http://${shop}/openapi.json`)).text();
    fs.writeFileSync(path.join(folder, 'openapi.json'), document);
    fs.writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }');
    const compilerOptions = {
        target: 'es2022',
        module: 'nodenext',
        lib: ['es2022', 'dom', 'dom.iterable'],
        types: [],
        strict: true,
        skipLibCheck: true,
        outDir: 'out',
    };
    fs.writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
    run('openapi-typescript/bin/cli.js', 'openapi.json', '-o', 'schema.d.ts');
    run('@hey-api/openapi-ts/bin/run.js');
    run('typescript7/bin/tsc', '-p', '.');
    const seen = {};
    for (const name of ['fetch', 'hey']) {
        const { sell } = await import(pathToFileURL(path.join(folder, 'out', `${name}.js`)));
        seen[name] = await sell(shop, name);
    }
    console.log(JSON.stringify(seen));
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
