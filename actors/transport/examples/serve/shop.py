"""A service in Python: its functions are steps, and the Executor of AsyncSteps for Rust serves them.

    ASYNCSTEPS_LIBRARY=target/debug/examples/libserve.so python3 actors/transport/examples/serve/shop.py

It prints its port and serves until its input ends.
"""

import json
import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.join(HERE, *[os.pardir] * 4)
sys.path.insert(0, os.path.join(REPOSITORY, "engine", "ffi", "examples", "python"))

from asyncsteps import Mutex, kept_count
from serve import Serve


class Shop:
    """What is in stock, and who waits for the next order."""

    def __init__(self, lock):
        self.lock = lock
        self.stock = 10
        self.watcher = None

    def order(self, asi, params):
        qty = json.loads(params)["qty"]

        def sell(asi):  # the critical section: all of its sub-steps run under the lock
            if qty > self.stock:
                return asi.error("OutOfStock", "there are not so many")
            asi.add(write_down)
            asi.add(finish)

        def write_down(asi):
            """In a database, which takes its time: a thread that completes the step."""
            asi.wait_external()
            threading.Thread(target=asi.success).start()

        def finish(asi):
            self.stock -= qty
            watcher, self.watcher = self.watcher, None
            if watcher:
                watcher.success(json.dumps({"qty": qty}))
            asi.success(json.dumps({"left": self.stock}))

        asi.sync(self.lock, sell)

    def next_order(self, asi, params):
        def forget(asi):
            self.watcher = None
            print("cancelled", flush=True)

        asi.set_cancel(forget)
        self.watcher = asi
        print("waiting", flush=True)


def main():
    with Mutex() as lock:
        shop = Shop(lock)
        functions = {"order": shop.order, "nextOrder": shop.next_order}
        with Serve(HERE, "example.shop:1.0", functions) as serve:
            print(serve.port, flush=True)
            sys.stdin.read()
    assert kept_count() == 0, "a server that is closed holds nothing"


if __name__ == "__main__":
    main()
