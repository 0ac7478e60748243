"""Uses a store of several nodes by redis-py, knowing the one on the port given."""

import os
import sys
import time

import redis
from redis.backoff import ConstantBackoff
from redis.cluster import ClusterNode, LoadBalancingStrategy, RedisCluster
from redis.retry import Retry

NAME = "redis-py"
KEYS = 200
RESUMES_WITHIN = 5.0


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {str(found)[:300]} instead of {str(wanted)[:300]}")


def connect(port, **options):
    node = ClusterNode("127.0.0.1", port)
    retry = Retry(ConstantBackoff(0.1), 20)
    return RedisCluster(
        startup_nodes=[node], decode_responses=True, socket_timeout=1, retry=retry, **options
    )


def commands(client):
    keys = {f"{NAME}:key:{n}" for n in range(KEYS)}
    for key in keys:
        expect("SET", client.set(key, "of " + key), True)
    for key in keys:
        expect("GET", client.get(key), "of " + key)
    # Each node tells of what it leads, and the library asks all: every key comes once.
    expect("the keys of SCAN", sorted(client.scan_iter(match=f"{NAME}:key:*", count=20)), sorted(keys))
    expect("DBSIZE of all nodes", client.dbsize(target_nodes=RedisCluster.PRIMARIES) >= KEYS, True)
    fields = {f"field:{n}": str(n) for n in range(50)}
    expect("HSET", client.hset(f"{NAME}:hash", mapping=fields), 50)
    expect("HGETALL", client.hgetall(f"{NAME}:hash"), fields)
    a = "{" + NAME + "}a"
    with client.pipeline(transaction=True) as transaction:
        transaction.set(a, 1)
        transaction.incr(a)
        transaction.get(a)
        expect("MULTI", transaction.execute(), ["OK", 2, "2"])
    pipeline = client.pipeline()
    for key in keys:
        pipeline.get(key)
    expect("pipeline", pipeline.execute(), ["of " + key for key in keys])


def replicas(client, keys):
    deadline = time.monotonic() + RESUMES_WITHIN
    for key in keys:
        # Another replica each time, and each is a little behind.
        while (found := client.get(key)) != "of " + key and time.monotonic() < deadline:
            pass
        expect("GET from a replica", found, "of " + key)


failures = 0


def retried(key, request):
    global failures
    start = time.monotonic()
    while True:
        try:
            return request()
        except redis.RedisError as error:
            failures += 1
            if time.monotonic() > start + RESUMES_WITHIN:
                sys.exit(f"{key}: not within {RESUMES_WITHIN} s: {error!r}")
            time.sleep(0.05)


def write(client, end):
    print("WRITING", flush=True)
    written, longest = 0, 0.0
    while not os.path.exists(end):
        key, start = f"{NAME}:written:{written}", time.monotonic()
        retried(key, lambda: client.set(key, "of " + key))
        longest = max(longest, time.monotonic() - start)
        written += 1
        time.sleep(0.003)
    expect(f"writes in time (slowest {longest} s)", longest < RESUMES_WITHIN, True)
    for key in (f"{NAME}:written:{n}" for n in range(written)):
        expect("an acknowledged write", retried(key, lambda: client.get(key)), "of " + key)
    print(f"{written} writes, the slowest in {longest:.2f} s, {failures} tried again")


port, what = int(sys.argv[1]), sys.argv[2]
if what == "FOLLOWERS":
    client = connect(port, load_balancing_strategy=LoadBalancingStrategy.ROUND_ROBIN)
    keys = ["{" + NAME + "}" + str(n) for n in range(30)]
    for key in keys:
        client.set(key, "of " + key)
    replicas(client, keys)
else:
    client = connect(port)
    commands(client)
    replicas(connect(port, load_balancing_strategy=LoadBalancingStrategy.ROUND_ROBIN), [f"{NAME}:key:{n}" for n in range(KEYS)])
    write(client, what)
print("OK")
