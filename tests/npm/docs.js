'use strict';

// Tries calls of the demo shop in Swagger UI, in a real browser that reaches no other server.
//
// usage: node docs.js HOST:PORT BROWSER
// Prints one JSON object with what the page shows.

const { chromium } = require('playwright-core');

const [address, executablePath] = process.argv.slice(2);

/** Fills in the parameters of an operation that is called by POST, and sends it; gives what is shown. */
async function call(page, func, params) {
    const operation = page.locator('.opblock-post', { hasText: `/ftn/demo.shop/1.0/${func}` });
    if ((await operation.locator('.opblock-body').count()) === 0) {
        await operation.locator('.opblock-summary-control').click();
    }
    for (const [name, value] of Object.entries(params)) {
        const row = operation.locator(`tr[data-param-name="${name}"]`);
        await row.locator('input, textarea').fill(value);
    }
    const answered = page.waitForResponse((response) => response.url().includes(`/${func}?`));
    await operation.locator('button.execute').click();
    const response = await answered;
    const live = operation.locator('.live-responses-table .response').first();
    const status = live.locator('.response-col_status', { hasText: `${response.status()}` });
    await status.waitFor();
    const body = await live.locator('.highlight-code code').first().innerText();
    return [response.request().method(), response.status(), JSON.parse(body)];
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
        // the page has a field for each item of a list
        const order = (qty) => call(page, 'order', { customer: 'ann', items: JSON.stringify({ sku: 'apple', qty }) });
        const seen = {
            title: (await page.locator('.info .title').innerText()).split(/\s+/),
            restocked: await call(page, 'restock', { sku: 'apple', count: '10', price: '30' }),
            ordered: await order(3),
            refused: await order(8),
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
