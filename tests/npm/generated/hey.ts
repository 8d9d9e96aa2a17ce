// What a program writes with the client that @hey-api/openapi-ts generates.

import { createClient } from './hey/client/index.js';
import { demoShopOrder, demoShopRestock, demoShopStockGet, futoinPingPingGet } from './hey/index.js';

export async function sell(host: string, sku: string) {
    const client = createClient({ baseUrl: `http://${host}` });
    const restocked = await demoShopRestock({ client, body: { sku, count: 10, price: 30 } });
    const order = (qty: number, customer = 'ann') =>
        demoShopOrder({ client, body: { customer, items: [{ sku, qty }] } });
    const ordered = await order(3);
    const read = await demoShopStockGet({ client, query: { sku } });
    const refused = await order(8);
    const tooLarge = await order(1, 'x'.repeat(70_000));
    const anonymous = await futoinPingPingGet({ client, query: { echo: 7 } });
    const user = await futoinPingPingGet({ client, query: { echo: 7 }, auth: 'ann:apples' });
    return {
        restocked: restocked.data?.r.stock,
        total: ordered.data?.r.total,
        left: read.data?.r.stock,
        isOutOfStock: refused.error?.code === 'OutOfStock',
        refused: [refused.response?.status, refused.error?.detail],
        tooLarge: [tooLarge.response?.status, tooLarge.error?.code],
        anonymous: [anonymous.response?.status, anonymous.error?.code],
        user: user.data?.r.echo,
    };
}
