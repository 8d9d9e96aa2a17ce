'use strict';

// Uses the console in a real browser: a request that failed, one that hangs, one that waits for its lock.
//
// usage: node console.js HOST:PORT BROWSER FOLDER
// Prints one JSON object with what the page shows, and leaves pictures of it in the folder.

const { chromium } = require('playwright-core');

const [address, executablePath, folder] = process.argv.slice(2);

/** A call over HTTP; gives the message of the answer. */
async function pay(customer, ms, fails) {
    const body = JSON.stringify({ f: 'test.till:1.0:pay', p: { customer, ms, fails } });
    const headers = { 'content-type': 'application/futoin+json' };
    const answer = await fetch(`http://${address}/ftn/`, { method: 'POST', headers, body });
    return answer.json();
}

async function use(page) {
    const seen = {};
    const text = (selector) => page.locator(selector).first().innerText().then((it) => it.replace(/\s+/g, ' ').trim());
    const picture = async (name) => {
        for (const theme of ['light', 'dark']) {
            await page.emulateMedia({ colorScheme: theme });
            await page.screenshot({ path: `${folder}/console-${name}-${theme}.png` });
        }
    };

    await pay('ann', 150, true);
    await pay('bob', 1200, false);
    const hour = 3_600_000;
    const name = '<b>cat</b>';
    const stuck = pay(name, hour, false);
    await page.goto(`http://${address}/console`);
    await page.locator('a[href="#/flows"] .count').waitFor();
    const second = pay(name, 1, false);

    await page.locator('.spark polyline').first().waitFor({ state: 'attached' });
    await page.locator('.tag.bad', { hasText: 'Declined' }).waitFor();
    seen.title = await page.title();
    await picture('overview');

    // with the keys alone
    await page.keyboard.press('3');
    await page.locator('tr.opens', { hasText: 'Declined' }).waitFor();
    await picture('requests');
    await page.locator('#kind').selectOption('failed');
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.locator('.waterfall .row.error').first().waitFor();
    seen.cause = (await text('.summary')).replace(/\d[\d.\u202f]* ?ms/g, 'T').replace(/:\d+\)/g, ')');
    seen.waterfall = await page.locator('.waterfall .row .name b').allInnerTexts();
    await picture('waterfall');
    await page.keyboard.press('Escape');

    await page.keyboard.press('2');
    await page.locator('tr.opens', { hasText: 'mutex' }).waitFor();
    seen.waits = (await page.locator('.reason').allInnerTexts()).map((it) => it.trim()).sort();
    await picture('flows');
    await page.keyboard.press('4');
    await page.locator('.queued').first().waitFor({ state: 'attached' });
    seen.lock = await text('.card tbody');
    await picture('locks');
    await page.keyboard.press('5');
    await page.locator('.shape').first().waitFor();
    await picture('functions');

    await page.keyboard.press('2');
    await page.locator('tr.opens', { hasText: 'a future' }).click();
    await page.locator('.waterfall .row.open').first().waitFor();
    seen.running = await text('.stack b');
    await picture('running');
    await page.locator('button.danger').click();
    seen.cancelled = await stuck;
    seen.second = await second;
    await page.locator('#details .tag.bad').waitFor();
    seen.outcome = await text('#details .details .tag');
    return seen;
}

(async () => {
    // root may run this
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    try {
        const page = await browser.newPage({ viewport: { width: 1360, height: 820 }, deviceScaleFactor: 1 });
        const errors = [];
        page.on('console', (message) => ['error', 'warning'].includes(message.type()) && errors.push(message.text()));
        page.on('pageerror', (error) => errors.push(String(error)));
        page.setDefaultTimeout(20_000);
        let seen;
        try {
            seen = await use(page);
        } catch (error) {
            await page.screenshot({ path: `${folder}/console-failure.png` });
            throw new Error(`${error.message}\nerrors of the page: ${errors.join('; ')}`);
        }
        console.log(JSON.stringify({ ...seen, errors }));
    } finally {
        await browser.close();
    }
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
