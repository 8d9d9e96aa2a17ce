'use strict';

// Uses the console in a real browser, on a service with faults: a slow bank, a deadlock, a courier that
// never comes.
//
// usage: node console.js HOST:PORT BROWSER FOLDER TOKEN
// Prints one JSON object with what the page shows, and leaves pictures of it in the folder.

const { chromium } = require('playwright-core');

const [address, executablePath, folder, token] = process.argv.slice(2);

const HOUR = 3_600_000;

/** A call over HTTP; gives the message of the answer. */
async function call(func, params, more = {}) {
    const body = JSON.stringify({ f: func, p: params });
    const headers = { 'content-type': 'application/futoin+json', ...more };
    const answer = await fetch(`http://${address}/ftn/`, { method: 'POST', headers, body });
    return answer.json();
}

const till = (name, params) => call(`test.till:1.0:${name}`, params);
const pay = (customer, ms, fails) => till('pay', { customer, ms, fails });

/** What people read: without times, numbers of requests, and lines of the source. */
const read = (text) => text.replace(/\s+/g, ' ').replace(/#\d+/g, '').replace(/\d[\d.]* ?(ms|\u00b5s|s|min)\b/g, 'T')
    .replace(/:\d+\)/g, ')').replace(/ limit in T.*| for T.*/g, '').replace(/( T)+$/, '').replace(/ +/g, ' ').trim();

class Visitor {
    seen = {};

    constructor(page) {
        this.page = page;
    }

    one(selector, hasText) {
        return this.page.locator(selector, hasText && { hasText }).first();
    }

    async text(selector, hasText) {
        return read(await this.one(selector, hasText).innerText());
    }

    async texts(selector) {
        // a text of a drawing has no innerText
        const texts = await this.page.locator(selector).evaluateAll((nodes) => nodes.map((it) => it.innerText ?? it.textContent));
        return texts.map(read).sort();
    }

    /** Leaves pictures of what is shown, in both themes. */
    async picture(name) {
        for (const theme of ['light', 'dark']) {
            await this.page.emulateMedia({ colorScheme: theme });
            await this.page.screenshot({ path: `${folder}/console-${name}-${theme}.png` });
        }
    }

    /** Cancels the request that is open: the first click only asks. */
    async cancel() {
        await this.page.locator('button.danger', { hasText: 'Cancel request' }).click();
        await this.page.locator('button.danger', { hasText: 'Cancel it' }).click();
    }

    /** The step that a waterfall blames: both attempts of a step count. */
    async blame() {
        const step = (depth, name, began, took) => ({ depth, branch: 0, began, took, place: { name, file: 'shop.rs', line: name.length } });
        const steps = [
            step(0, 'order', 0, 1780), step(1, 'authorize', 0, 780), step(2, 'authorize', 0, 300), step(2, 'authorize', 320, 460),
            step(1, 'capture', 780, 822), step(2, 'capture', 780, 400), step(2, 'capture', 1200, 402), step(1, 'place order', 1602, 178),
        ];
        this.seen.blamed = await this.page.evaluate(async (steps) => {
            const { slowest } = await import('/console/waterfall.js');
            const { step, own } = slowest(steps);
            return [step.place.name, step.depth, own];
        }, steps);
    }

    /** Branches of a plan are beside each other, what runs is at its step, and names are texts. */
    async drawn() {
        this.seen.drawn = await this.page.evaluate(async () => {
            const [{ drawing }, { show }] = await Promise.all(['plan', 'dom'].map((it) => import(`/console/${it}.js`)));
            const step = (name, form, ...ways) => ({ path: name, name, form, source: '/a/b.rs:7', takes: '()', returns: '()', locks: 0, limiters: 0, ways });
            const steps = [step('<i>trip<', 'join', [step('seat', 'body')], [step('room', 'body'), step('pay', 'body')]), step('tell', 'body')];
            const reports = [0, 0, 0, 0, 2].map((running) => ({ running, waits: {}, ended: 0, errors: {} }));
            const node = document.createElement('div');
            show(node, drawing({ plan: { kind: 'plan', steps }, all: 6, reports }));
            const one = (selector) => node.querySelector(selector).textContent;
            return [node.querySelectorAll('.way').length, one('.busy b'), one('b'), one('.hint')];
        });
    }

    /** Gives the token, after a wrong one. */
    async enter() {
        await this.page.goto(`http://${address}/console`);
        await this.one('#login').waitFor();
        await this.picture('token');
        for (const given of ['a-wrong-secret', token]) {
            await this.page.locator('#token').fill(given);
            await this.page.keyboard.press('Enter');
            if (given === token) break;
            this.seen.token = await this.text('#wrong');
        }
        await this.one('.tile').waitFor();
        this.seen.ready = await this.text('#state');
    }

    /** The slow bank: in a request that failed, and in one that others wait for. */
    async slowBank() {
        await pay('ann', 150, true);
        const name = '<b>cat</b>';
        const slow = pay(name, HOUR, false);
        await this.one('a[href="#/flows"] .count').waitFor();
        const second = pay(name, 1, false);
        await this.one('.tag.bad', 'Declined').waitFor();
        await this.one('.spark polyline').waitFor({ state: 'attached' });
        this.seen.title = await this.page.title();
        await this.one('.bars .label', 'mutex').waitFor();
        this.seen.places = await this.texts('.bars .label');
        await this.picture('overview');

        // with the keys alone
        await this.page.keyboard.press('3');
        await this.one('tr.opens', 'Declined').waitFor();
        await this.picture('requests');
        await this.page.locator('#kind').selectOption('failed');
        await this.page.keyboard.press('Escape');
        await this.page.keyboard.press('j');
        await this.page.keyboard.press('Enter');
        await this.one('.waterfall .row.error').waitFor();
        this.seen.cause = await this.text('.summary');
        this.seen.waterfall = await this.page.locator('.waterfall .row .name b').allInnerTexts();
        await this.picture('waterfall');
        await this.blame();
        // the address of the page names the request, also in another page
        await this.page.reload();
        await this.one('.waterfall .row.error').waitFor();
        const hash = () => new URL(this.page.url()).hash.replace(/\d+/, 'N');
        this.seen.address = [hash(), await this.text('#details h1', 'test.till')];
        await this.page.keyboard.press('Escape');
        await this.page.waitForURL('**/console#/requests');

        await this.page.keyboard.press('2');
        await this.one('tr.opens', 'mutex').waitFor();
        this.seen.slow = await this.text('tr.opens td.wide', 'runs');
        this.seen.behind = await this.text('tr.opens td.wide', 'mutex');
        await this.picture('flows');
        await this.page.keyboard.press('5');
        await this.one('.graph .box.lock').waitFor();
        this.seen.lock = await this.text('.card tbody tr');
        await this.picture('locks');
        await this.page.keyboard.press('6');
        // the maps have begun anew with the page: what is paid before its first snapshot is in none
        const isDrawn = () => this.one('.heat canvas').waitFor({ timeout: 4_000 }).then(() => true, () => false);
        let drawn = false;
        for (let left = 5; !drawn && left > 0; left -= 1) {
            await pay('eve', 1, false);
            drawn = await isDrawn();
        }
        this.seen.heat = await this.page.locator('.map').count();
        await this.picture('functions');
        await this.one('tr.opens', 'pay').click();
        await this.one('.plan .step.busy').waitFor();
        this.seen.plan = (await this.page.locator('.plan .step').allInnerTexts()).map((it) => read(it).replace(/\.rs:\d+/, '.rs'));
        await this.picture('plan');
        await this.one('.plan button', 'Close').click();
        await this.drawn();
        return [slow, second];
    }

    async refused() {
        await till('nothing', {});
        await call('test.none:1.0:nothing', {});
        await this.page.keyboard.press('4');
        await this.one('tbody td', 'UnknownInterface').waitFor();
        this.seen.refused = [...await this.texts('tbody .tag.warn'), ...await this.texts('tbody td.wide b')];
        await this.picture('refused');
    }

    /** Two transfers that hold what the other one wants: the graph has their cycle, until one is cancelled. */
    async deadlock() {
        const both = [till('transfer', { from: 'ann', to: 'bob' }), till('transfer', { from: 'bob', to: 'ann' })];
        await this.page.keyboard.press('5');
        await this.one('.graph .cycle').waitFor();
        this.seen.deadlock = (await this.text('.alarm b', 'deadlock'));
        this.seen.cycle = await this.texts('.graph .box.cycle .title');
        await this.picture('deadlock');
        await this.page.locator('.graph .box.flow.cycle').first().click();
        await this.cancel();
        this.seen.untangled = (await Promise.all(both)).sort((one, other) => Number('r' in one) - Number('r' in other));
        await this.page.keyboard.press('Escape');
    }

    /** A flow that nothing ever ends but a person. */
    async stuck() {
        const stuck = till('deliver', {});
        await this.page.keyboard.press('2');
        await this.one('tr.opens', 'courier').waitFor();
        await this.page.locator('#function').selectOption('test.till:1.0:deliver');
        await this.page.locator('#cause').selectOption('future');
        await this.one('#found', '1 shown').waitFor();
        this.seen.filtered = await this.texts('tr.opens .function b');
        await this.one('tr.opens').click();
        await this.one('.waterfall .row.open').waitFor();
        this.seen.stuck = await this.text('.stack li');
        await this.picture('stuck');
        await this.cancel();
        this.seen.cancelled = await stuck;
        await this.one('#details .tag.bad').waitFor();
        this.seen.outcome = await this.text('#details .details .tag');
        await this.page.keyboard.press('Escape');
    }

    /** A durable request, which is one row with its caller: what is recorded of it, until a person ends it. */
    async durable() {
        const credit = call('test.till:1.0:credit', {}, { 'idempotency-key': 'cart 7' });
        // without the filter of before
        await this.page.keyboard.press('1');
        await this.page.keyboard.press('2');
        const row = this.page.locator('tr.opens', { hasText: 'credit' });
        // a moment later no process has it
        await row.locator('.tag.cause', { hasText: 'durable' }).waitFor();
        this.seen.one = [await row.count(), read(await row.locator('td.wide').innerText())];
        await this.picture('one');
        await row.locator('button.link').click();
        await this.one('.card tbody td', 'done').waitFor();
        this.seen.named = new URL(this.page.url()).hash.replace(/[0-9a-f]{32}/, 'UID');
        this.seen.durable = await this.texts('.card tbody .tag');
        const search = this.page.locator('.choices input');
        await search.fill('cart 8');
        await this.one('.empty', 'No request has this uid').waitFor();
        await search.fill('cart 7');
        await this.one('tr.opens', 'credit').waitFor();
        this.seen.key = await this.text('tr.opens .key-cell');
        await this.one('tr.opens').click();
        await this.one('.card tbody td', 'done').waitFor();
        await this.picture('durable');
        await this.cancel();
        // a text finds it in any letters, also before it has ended
        await this.one('.card h2', /Cancelled by/).waitFor();
        this.seen.withdrawn = (await this.text('.card h2')).replace(/^\S+ /, '').replace(/^credit /, '');
        await credit;
        await this.page.keyboard.press('8');
        await this.one('.empty', 'owns no entity').waitFor();
        await this.picture('entities');
    }

    /** The curves of a page that is opened now begin when the service did. */
    async past() {
        await this.page.keyboard.press('6');
        await this.page.reload();
        await this.one('.heat canvas').waitFor();
        this.seen.past = (await this.text('.hint', 'when the service began')).replace(/\d+:\d+:\d+/, 'T');
    }

    /** The nodes that the fabric has, once they have answered. */
    async nodes() {
        await this.page.keyboard.press('9');
        await this.one('tbody td', 'serving').waitFor();
        this.seen.nodes = await this.texts('tbody tr');
        await this.picture('nodes');
    }

    async narrow() {
        await this.page.setViewportSize({ width: 420, height: 820 });
        await this.page.keyboard.press('1');
        await this.one('.tile').waitFor();
        await this.picture('narrow');
    }
}

async function visit(page) {
    const visitor = new Visitor(page);
    await visitor.enter();
    const [slow] = await visitor.slowBank();
    await visitor.refused();
    await visitor.deadlock();
    await visitor.stuck();
    await visitor.durable();
    await visitor.nodes();
    await visitor.past();
    await visitor.narrow();
    // the browser closes while the bank still thinks
    slow.catch(() => {});
    return visitor.seen;
}

(async () => {
    // root may run this
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    try {
        const page = await browser.newPage({ viewport: { width: 1360, height: 820 }, deviceScaleFactor: 1 });
        const errors = [];
        // that of the token that is not given, which the browser tells by itself
        const isExpected = (text) => text.includes('401 (Unauthorized)');
        page.on('console', (message) => ['error', 'warning'].includes(message.type()) && !isExpected(message.text()) && errors.push(message.text()));
        page.on('pageerror', (error) => errors.push(String(error)));
        page.setDefaultTimeout(20_000);
        let seen;
        try {
            seen = await visit(page);
        } catch (error) {
            await page.screenshot({ path: `${folder}/console-failure.png` });
            throw new Error(`${error.message}\nerrors of the page: ${errors.join('; ')}`);
        }
        console.log(JSON.stringify({ ...seen, errors }));
    } finally {
        await browser.close();
    }
    // a call of the slow bank is open
    process.exit(0);
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
