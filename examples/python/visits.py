"""Counts visits with redis-py. Argument: the port of a node."""

import os
import sys
import time

from redis.cluster import RedisCluster

port = int(sys.argv[1]) if len(sys.argv) > 1 else 7000
store = RedisCluster(host="127.0.0.1", port=port, password=os.environ.get("BASALT_PASSWORD"), decode_responses=True)

store.hset("{user:7}:session", mapping={"name": "Ada", "city": "London"})
store.expire("{user:7}:session", 3600)

# Both or neither: they are in one slot.
with store.pipeline(transaction=True) as both:
    both.incr("{user:7}:visits")
    both.hset("{user:7}:session", "last", int(time.time()))
    visits, _ = both.execute()

print(f"visit {visits} of {store.hget('{user:7}:session', 'name')}")
