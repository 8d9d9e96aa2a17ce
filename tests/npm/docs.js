'use strict';

// Tries calls of the demo shop in Swagger UI, in a real browser that reaches no other server.
//
// usage: node docs.js HOST:PORT BROWSER
// Prints one JSON object with what the page shows.

const { chromium } = require('playwright-core');

const [address, executablePath] = process.argv.slice(2);

/** Fills in the body of an operation that is called by POST, unless its example is taken, and sends it; gives what is shown. */
async function call(page, func, params) {
    const operation = page.locator('.opblock-post', { hasText: `/ftn/demo.shop/1.0/${func}` });
    if ((await operation.locator('.opblock-body').count()) === 0) {
        await operation.locator('.opblock-summary-control').click();
    }
    if (params) await operation.locator('textarea.body-param__text').fill(JSON.stringify(params));
    const answered = page.waitForResponse((response) => response.url().endsWith(`/${func}`));
    await operation.locator('button.execute').click();
    const response = await answered;
    const live = operation.locator('.live-responses-table .response').first();
    const status = live.locator('.response-col_status', { hasText: `${response.status()}` });
    await status.waitFor();
    const body = await live.locator('.highlight-code code').first().innerText();
    return [response.request().method(), response.status(), JSON.parse(body)];
}

/** What the page about an order shows of one. */
async function watched(page) {
    await page.goto(`http://${address}/docs/order`);
    await page.locator('button').click();
    await page.locator('li', { hasText: 'result' }).waitFor();
    return page.locator('li').allInnerTexts();
}

(async () => {
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    try {
        const page = await browser.newPage();
        const errors = [];
        page.on('pageerror', (error) => errors.push(`${error}`));
        page.on('console', (message) => {
            // the browser says so of each answer with such a status
            if (message.type() === 'error' && !message.text().includes('the server responded with a status of 4')) {
                errors.push(message.text());
            }
        });
        page.on('request', (request) => {
            const { host, protocol } = new URL(request.url());
            if (protocol !== 'data:' && host !== address) errors.push(request.url());
        });
        await page.goto(`http://${address}/docs`);
        await page.locator('.opblock').first().waitFor();
        const seen = {
            title: (await page.locator('.info .title').innerText()).split(/\s+/),
            restocked: await call(page, 'restock'),
            ordered: await call(page, 'order'),
            refused: await call(page, 'order', { customer: 'ann', items: [{ sku: 'apple', qty: 8 }] }),
            watched: await watched(page),
            errors,
        };
        console.log(JSON.stringify(seen));
    } finally {
        await browser.close();
    }
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
