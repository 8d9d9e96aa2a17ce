'use strict';

// Calls the demo shop with the released FutoIn invoker, first with its SimpleCCM, then with its
// AdvancedCCM, which loads our definitions and checks both directions against them.
//
// usage: node shop.js END_POINT SPEC_DIR...
// Prints one JSON object with what each of them got; ends with 1 if a call did not end as it should.

const $as = require('futoin-asyncsteps');
const { AdvancedCCM, SimpleCCM } = require('futoin-invoker');

const [endPoint, ...specDirs] = process.argv.slice(2);

/** Calls everything once; `sku` is new to the shop. */
function visit(asi, ccm, sku) {
    const seen = {};
    const call = (name, iface, func, params) =>
        asi.add(
            (asi) => {
                ccm.iface(iface).call(asi, func, params(seen));
                asi.add((asi, result) => {
                    seen[name] = result;
                });
            },
            (asi, code) => {
                seen[name] = { error: code, info: asi.state.error_info };
                asi.success();
            },
        );

    asi.add((asi) => {
        ccm.register(asi, 'ping', 'futoin.anonping:1.0', endPoint);
        ccm.register(asi, 'shop', 'demo.shop:1.0', endPoint);
    });
    const items = (qty) => [{ sku, qty }];
    call('ping', 'ping', 'ping', () => ({ echo: 123 }));
    call('restock', 'shop', 'restock', () => ({ sku, count: 5, price: 250 }));
    call('order', 'shop', 'order', () => ({ customer: sku, items: items(4) }));
    call('get', 'shop', 'get', (seen) => ({ order: seen.order.order }));
    call('list', 'shop', 'list', () => ({ customer: sku, limit: 20 }));
    call('tooMuch', 'shop', 'order', () => ({ customer: sku, items: items(2) }));
    call('stock', 'shop', 'stock', () => ({ sku }));
    call('wrong', 'shop', 'stock', () => ({ sku: 'not a SKU' }));
    asi.add((asi) => {
        ccm.close();
        asi.success(seen);
    });
}

const summary = {};

$as()
    .add(
        (asi) => {
            asi.add((asi) => visit(asi, new SimpleCCM(), 'simple'));
            asi.add((asi, seen) => {
                summary.simple = seen;
                visit(asi, new AdvancedCCM({ specDirs }), 'advanced');
            });
            asi.add((asi, seen) => {
                summary.advanced = seen;
                console.log(JSON.stringify(summary));
            });
        },
        (asi, code) => {
            console.error(`${code}: ${asi.state.error_info}`, asi.state.last_exception);
            process.exitCode = 1;
        },
    )
    .execute();
