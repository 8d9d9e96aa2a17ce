"""What a program writes with the client that openapi-python-client generates as the package `shop`.

usage: python sell.py HOST:PORT
Prints one JSON object with what it got.
"""

import base64
import json
import sys

from shop import AuthenticatedClient, Client
from shop.api.demo_shop import demo_shop_order, demo_shop_restock, demo_shop_stock_get
from shop.api.futoin_ping import futoin_ping_ping_get
from shop.models import (
    DemoShopItem,
    DemoShopOrderParams,
    DemoShopRestockParams,
    OutOfStockOrKeyReusedProblem,
    OutOfStockOrKeyReusedProblemCode,
)

HOST = f"http://{sys.argv[1]}"
SKU = "apple"
client = Client(base_url=HOST)


def order(qty, customer="ann"):
    body = DemoShopOrderParams(customer=customer, items=[DemoShopItem(sku=SKU, qty=qty)])
    return demo_shop_order.sync_detailed(client=client, body=body)


restocked = demo_shop_restock.sync(
    client=client, body=DemoShopRestockParams(sku=SKU, count=10, price=30)
)
ordered = order(3).parsed
read = demo_shop_stock_get.sync(client=client, sku=SKU)
refused = order(8)
assert isinstance(refused.parsed, OutOfStockOrKeyReusedProblem)
too_large = order(1, "x" * 70_000)
anonymous = futoin_ping_ping_get.sync_detailed(client=client, echo=7)
token = base64.b64encode(b"ann:apples").decode()
known = AuthenticatedClient(base_url=HOST, token=token, prefix="Basic")
user = futoin_ping_ping_get.sync(client=known, echo=7)
seen = {
    "restocked": restocked.r.stock,
    "total": ordered.r.total,
    "left": read.r.stock,
    "isOutOfStock": refused.parsed.code is OutOfStockOrKeyReusedProblemCode.OUTOFSTOCK,
    "refused": [refused.status_code, refused.parsed.detail],
    "tooLarge": [too_large.status_code, too_large.parsed.code],
    "anonymous": [anonymous.status_code, anonymous.parsed.code],
    "user": user.r.echo,
}
print(json.dumps(seen))
