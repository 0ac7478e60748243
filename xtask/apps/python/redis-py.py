"""redis-py: a Lock that keeps a counter whole, messages in their order, pipelines that are whole or nothing, and its client-side cache."""

import threading
import time

import redis
from redis.cache import CacheConfig
from redis.lock import Lock

from trial import KILLED, PORT, Again, half, ok

THREADS, TURNS = 6, 40
again = Again(redis.RedisError)


def client():
    return redis.Redis(port=PORT, decode_responses=True, socket_timeout=20)


def locked(number, held):
    """Adds one at a time, under the lock, in two steps that another holder would spoil."""
    store = client()
    for turn in range(TURNS):
        lock = Lock(store, "counter-lock", timeout=15, blocking_timeout=60)
        assert again(lock.acquire), "the lock was never had"
        assert not held.locked(), "two hold the lock"
        with held:
            count = int(again(store.get, "counter") or 0)
            again(store.set, "counter", count + 1)
        try:
            lock.release()
        except redis.RedisError as error:
            # Released or not, where the answer is lost: it runs out.
            assert KILLED, f"the lock could not be released: {error!r}"
            again.failures.append(repr(error))
        if number == 0 and turn == TURNS // 2:
            half()


def listen(received, ready):
    subscription = client().pubsub(ignore_subscribe_messages=True)
    subscription.subscribe("news")
    ready.set()
    for message in subscription.listen():
        received.append(int(message["data"]))
        if received[-1] < 0:
            return


def pipelines():
    """Each transaction writes the same number to two keys; a reader must never see two numbers."""
    store, torn = client(), 0
    for number in range(300):
        pipe = store.pipeline(transaction=True)
        pipe.set("left", number).set("right", number).incr("transactions")
        again(pipe.execute)
        left, right = again(store.mget, "left", "right")
        torn += left != right
    assert not torn, f"{torn} transactions were seen in part"
    pipe = store.pipeline(transaction=False)
    for number in range(1000):
        pipe.set(f"many:{number}", number)
    again(pipe.execute)
    assert again(store.mget, [f"many:{n}" for n in range(1000)]) == [str(n) for n in range(1000)]


def watched(turns=50):
    """Optimistic transactions of two clients: none overwrites what another wrote."""
    store = client()

    def add(pipe):
        count = int(pipe.get("watched") or 0)
        pipe.multi()
        pipe.set("watched", count + 1)
        try:
            pipe.execute()
        except redis.WatchError as error:
            # That is also what it makes of an answer that is lost with the connection, and makes the transaction again.
            if str(error) != "Watched variable changed.":
                assert KILLED, f"a transaction's answer was lost: {error!r}"
                again.failures.append(repr(error))
            raise

    for _ in range(turns):
        again(store.transaction, add, "watched")


def cached(turns=100):
    """A client with a cache asks once, and never sees what another one has overwritten before it asks."""
    reader = redis.Redis(port=PORT, protocol=3, decode_responses=True, socket_timeout=20, cache_config=CacheConfig())
    writer = client()
    for turn in range(turns):
        again(writer.set, "cached", turn)
        # The invalidation is on its way, and has no order with another connection's answers.
        until = time.monotonic() + 20
        while again(reader.get, "cached") != str(turn):
            assert time.monotonic() < until, "the cache holds what was overwritten"
    assert reader.get_cache().size > 0, "nothing is cached"
    asked = writer.info("commandstats")["cmdstat_get"]["calls"]
    for _ in range(turns):
        assert reader.get("cached") == str(turns - 1)
    asked = writer.info("commandstats")["cmdstat_get"]["calls"] - asked
    assert asked == 0, f"the node was asked {asked} times for what is cached"


received, ready, held = [], threading.Event(), threading.Lock()
failed = []


def thread(function, *args):
    def run():
        try:
            function(*args)
        except BaseException as error:
            failed.append(f"{function.__name__}: {error!r}")

    started = threading.Thread(target=run, daemon=True)
    started.start()
    return started


listener = thread(listen, received, ready)
assert ready.wait(10)
threads = [thread(locked, number, held) for number in range(THREADS)] + [thread(pipelines)]
threads += [thread(watched) for _ in range(2)]
publisher, sent = client(), 0
while any(one.is_alive() for one in threads):
    again(publisher.publish, "news", sent)
    sent += 1
    time.sleep(0.01)
assert not failed, failed
for _ in range(50):
    again(publisher.publish, "news", -1)
    listener.join(0.2)
    if not listener.is_alive():
        break
assert not listener.is_alive(), "the subscriber hears nothing any more"
heard = [number for number in received if number >= 0]
assert heard == sorted(heard), "messages came out of order"
assert KILLED or heard == list(range(sent)), f"{sent - len(heard)} messages are missing"
store = client()
assert int(store.get("counter")) == THREADS * TURNS, f"{store.get('counter')} of {THREADS * TURNS}"
total = int(store.get("watched"))
assert total == 100 or KILLED and 100 <= total <= 100 + len(again.failures), f"{total} of 100 watched"
cached()
missing = f", {sent - len(set(heard))} of {sent} messages lost" if KILLED else f", {sent} messages in order"
tried = f", {len(again.failures)} calls made again" if again.failures else ""
ok(f"{THREADS * TURNS} turns under a lock, 300 transactions, 100 reads from a cache{missing}{tried}")
