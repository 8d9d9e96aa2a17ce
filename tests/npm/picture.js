'use strict';

// Makes the picture of the console that the README shows, from the real page: it starts a demo whose
// bank is slow and loses calls, sends orders, some of them several times, and takes what the page shows.
//
// usage, in the folder of the repository, after cargo build --package executor-demo:
// node tests/npm/picture.js target/debug/executor-demo BROWSER actors/console/picture.png

const { spawn } = require('node:child_process');
const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');

const { chromium } = require('playwright-core');

const [demo, executablePath, file] = process.argv.slice(2);

const SKUS = ['apples', 'pears', 'quinces', 'walnuts'];

/** Starts a demo on a database of its own; gives its address, and what stops it. */
async function start() {
    const folder = mkdtempSync(join(tmpdir(), 'console-picture-'));
    const args = ['--listen', '127.0.0.1:0', '--data', join(folder, 'shop.db'), '--bank-latency', '700', '--bank-failures', '35', '--bank-seed', '7', '--timeout', '30'];
    const child = spawn(demo, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const stop = async () => {
        const ended = new Promise((resolve) => child.once('exit', resolve));
        child.kill('SIGTERM');
        await ended;
        rmSync(folder, { recursive: true });
    };
    const address = await new Promise((resolve, reject) => {
        let text = '';
        const look = (data) => {
            text += data;
            const found = /listens on http:\/\/([^/]+)\//.exec(text);
            if (found) resolve(found[1]);
        };
        child.stdout.on('data', look);
        child.stderr.on('data', look);
        child.once('exit', () => reject(new Error(`the demo ended: ${text}`)));
    });
    return { address, stop };
}

class Shop {
    isOpen = true;
    next = 1000;

    constructor(address) {
        this.address = address;
    }

    async call(name, params) {
        const body = JSON.stringify({ f: `demo.shop:1.0:${name}`, p: params });
        const headers = { 'content-type': 'application/futoin+json' };
        const answer = await fetch(`http://${this.address}/ftn/`, { method: 'POST', headers, body });
        return answer.json();
    }

    order(customer, key) {
        const items = [{ sku: SKUS[key % 4], qty: 1 }, { sku: SKUS[(key + 1) % 4], qty: 2 }];
        return this.call('order', { customer, key: `cart-${key}`, items });
    }

    /** Customers who order and look at the stock, one of whom is impatient, until the shop closes. */
    async visitors() {
        for (const sku of SKUS) await this.call('restock', { sku, count: 100_000, price: 250 });
        const open = new Set();
        const does = (call) => {
            const done = call.catch(() => {}).finally(() => open.delete(done));
            open.add(done);
        };
        for (let turn = 0; this.isOpen; turn += 1) {
            const customer = ['ann', 'bob', 'cem', 'dora'][turn % 4];
            for (let again = turn % 8 === 0 ? 6 : 1; again > 0; again -= 1) does(this.order(customer, this.next));
            this.next += 1;
            for (let look = 0; look < 4; look += 1) does(this.call('stock', { sku: SKUS[(turn + look) % 4] }));
            await new Promise((go) => setTimeout(go, 250));
        }
        await Promise.all(open);
    }
}

/** The three views, as images in the order of the picture. */
async function views(page, address) {
    await page.goto(`http://${address}/console`);
    // so that there is a past
    await page.locator('a[href="#/requests"] .count').waitFor();
    await page.locator('.tile').first().waitFor();
    await page.waitForTimeout(12_000);
    const all = [];

    await page.keyboard.press('2');
    await page.locator('tr.opens .tag.mutex').first().waitFor();
    await page.locator('tr.opens .tag.warn', { hasText: 'attempt' }).first().waitFor();
    all.push(await page.screenshot());

    await page.setViewportSize({ width: 860, height: 760 });
    await page.keyboard.press('5');
    await page.locator('.graph .box.lock .note', { hasText: '5 wait' }).first().waitFor();
    all.push(await page.locator('.card.wide').screenshot());

    await page.keyboard.press('3');
    await page.setViewportSize({ width: 1040, height: 860 });
    await page.locator('#kind').selectOption('succeeded');
    await page.locator('#text').fill('BankUnavailable Timeout');
    await page.locator('tr.opens').first().click();
    await page.locator('.waterfall .row.error').first().waitFor();
    all.push(await page.locator('#details').screenshot());
    return all.map((image) => `data:image/png;base64,${image.toString('base64')}`);
}

/** One picture of the views: flows on top, the graph and a waterfall over it. */
async function compose(browser, [flows, graph, waterfall]) {
    const page = await browser.newPage({ viewport: { width: 1400, height: 940 } });
    await page.setContent(`<style>
        body { margin: 0; width: 1400px; height: 940px; overflow: hidden; background: #07090e; }
        img { position: absolute; border-radius: 12px; box-shadow: 0 0 0 1px #2a3346, 0 18px 60px 12px rgb(0 0 0 / 75%); }
        #flows { left: 20px; top: 20px; width: 1360px; height: 640px; object-fit: cover; object-position: top; }
        #graph { left: 20px; bottom: 20px; width: 575px; }
        #waterfall { right: 20px; bottom: 20px; width: 770px; }
    </style><img id="flows"><img id="graph"><img id="waterfall">`);
    for (const [id, src] of Object.entries({ flows, graph, waterfall })) {
        await page.locator(`#${id}`).evaluate(async (image, source) => {
            image.src = source;
            await image.decode();
        }, src);
    }
    await page.screenshot({ path: file });
}

(async () => {
    const { address, stop } = await start();
    const shop = new Shop(address);
    const visitors = shop.visitors();
    // root may run this
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    try {
        const page = await browser.newPage({ viewport: { width: 1360, height: 760 }, colorScheme: 'dark' });
        await compose(browser, await views(page, address));
    } finally {
        await browser.close();
        shop.isOpen = false;
        await visitors;
        await stop();
    }
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
