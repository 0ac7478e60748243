"""kombu's own tests of its transport for Redis, those that need a server."""

from suite import run

run("kombu==5.7.0", [["t/integration/test_redis.py", "t/integration/test_redis_brpop_qos.py"]], {})
