'use strict';

// Compiles the generated clients with the program `typescript/main.ts`, and runs it under Node.js or in a browser.
//
// usage: node typescript.js FOLDER SHOP CONFORM [BROWSER]
// FOLDER has the generated modules, SHOP and CONFORM are HOST:PORT. Prints one JSON object with what the program got.

const { execFileSync } = require('child_process');
const fs = require('fs');
const path = require('path');
const { pathToFileURL } = require('url');

const [folder, shop, conform, executablePath] = process.argv.slice(2);

function compile() {
    fs.copyFileSync(path.join(__dirname, 'typescript/main.ts'), path.join(folder, 'main.ts'));
    const compilerOptions = {
        target: 'es2022',
        module: 'es2022',
        moduleResolution: 'bundler',
        lib: ['es2022', 'dom'],
        types: [],
        strict: true,
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        noUnusedLocals: true,
        isolatedModules: true,
        // Node.js can then run the modules as they are
        erasableSyntaxOnly: true,
        verbatimModuleSyntax: true,
        outDir: 'out',
    };
    fs.writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
    fs.writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }');
    const tsc = path.join(__dirname, 'node_modules/typescript7/bin/tsc');
    execFileSync(process.execPath, [tsc, '-p', folder], { stdio: ['ignore', 2, 2] });
}

/** Runs it under Node.js, in a process that has WebSocket: before Node.js 22 that is an option. */
function underNode() {
    const main = JSON.stringify(pathToFileURL(path.resolve(folder, 'out/main.js')));
    const run = `import { sell, talk, watch } from ${main};
        const seen = { sell: await sell('${shop}'), watch: await watch('${shop}'), talk: await talk('${conform}') };
        console.log(JSON.stringify(seen));`;
    const options = typeof WebSocket === 'undefined' ? ['--experimental-websocket', '--no-warnings'] : [];
    const args = [...options, '--input-type=module', '--eval', run];
    return JSON.parse(execFileSync(process.execPath, args, { stdio: ['ignore', 'pipe', 2], timeout: 60_000 }));
}

/** Runs it in pages of the two hosts. */
async function inBrowser() {
    const { chromium } = require('playwright-core');
    // root may run this, and a page that was made up has no network that it could be near to
    const far = ['LocalNetworkAccessChecks', 'LocalNetworkAccessChecksWebSockets'];
    const args = ['--no-sandbox', `--disable-features=${far}`];
    const browser = await chromium.launch({ executablePath, args });
    try {
        const page = await browser.newPage();
        await page.route('**/client/*', (route) => {
            const name = path.basename(new URL(route.request().url()).pathname);
            if (name === 'page') return route.fulfill({ contentType: 'text/html', body: '' });
            const body = fs.readFileSync(path.join(folder, 'out', name));
            return route.fulfill({ contentType: 'text/javascript', body });
        });
        const run = async (host, name) => {
            await page.goto(`http://${host}/client/page`);
            return page.evaluate(
                async ([host, name]) => (await import('/client/main.js'))[name](host),
                [host, name],
            );
        };
        return { sell: await run(shop, 'sell'), watch: await run(shop, 'watch'), talk: await run(conform, 'talk') };
    } finally {
        await browser.close();
    }
}

async function main() {
    compile();
    console.log(JSON.stringify(executablePath ? await inBrowser() : underNode()));
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
