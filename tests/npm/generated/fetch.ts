// What a page writes with openapi-fetch and the types of openapi-typescript.

import createClient from 'openapi-fetch';
import type { paths } from './schema.js';

export async function sell(host: string, sku: string) {
    // a function that emits can also answer with events
    type Media = 'application/futoin+json' | 'application/problem+json';
    const shop = createClient<paths, Media>({ baseUrl: `http://${host}` });
    const restock = '/ftn/demo.shop/1.0/restock';
    const restocked = await shop.POST(restock, { body: { sku, count: 10, price: 30 } });
    const order = (qty: number, customer = 'ann') =>
        shop.POST('/ftn/demo.shop/1.0/order', { body: { customer, items: [{ sku, qty }] } });
    const ordered = await order(3);
    const read = await shop.GET('/ftn/demo.shop/1.0/stock', { params: { query: { sku } } });
    const refused = await order(8);
    const tooLarge = await order(1, 'x'.repeat(70_000));
    const ping = (headers = {}) =>
        shop.GET('/ftn/futoin.ping/1.0/ping', { params: { query: { echo: 7 } }, headers });
    const anonymous = await ping();
    const user = await ping({ authorization: `Basic ${btoa('ann:apples')}` });
    return {
        restocked: restocked.data?.r.stock,
        total: ordered.data?.r.total,
        left: read.data?.r.stock,
        // a code that the function does not have is a mistake to the compiler
        isOutOfStock: refused.error?.code === 'OutOfStock',
        refused: [refused.response.status, refused.error?.detail],
        tooLarge: [tooLarge.response.status, tooLarge.error?.code],
        anonymous: [anonymous.response.status, anonymous.error?.code],
        user: user.data?.r.echo,
    };
}
