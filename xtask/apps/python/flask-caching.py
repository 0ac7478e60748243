"""Flask-Caching: views and functions that are computed once while their answers are kept, by two servers."""

import time

import redis
from flask import Flask
from flask_caching import Cache

from trial import KILLED, URL, Again, Done, half, ok

PAGES = 40
again = Again(redis.RedisError)
done = Done()


def serve():
    app = Flask("program")
    app.config.update(CACHE_TYPE="RedisCache", CACHE_REDIS_URL=f"{URL}/2", CACHE_DEFAULT_TIMEOUT=300)
    cache = Cache(app)

    @app.get("/page/<int:number>")
    @cache.cached()
    def page(number):
        done.add(number)
        return {"page": number}

    @cache.memoize(timeout=300)
    def square(number):
        done.add(f"square-{number}")
        return number * number

    return app, cache, square


(one, cache, square), (two, other, _) = serve(), serve()
for number in range(PAGES):
    if number == PAGES // 2:
        half()
    for app in (one, two, one, two):
        answer = again(app.test_client().get, f"/page/{number}")
        assert answer.json == {"page": number}, answer.json
    with one.app_context():
        assert again(square, number) == again(square, number) == number * number
counts = done.counts()
often = sum(count > 1 for count in counts.values())
# Flask-Caching computes again where the store does not answer.
assert len(counts) == 2 * PAGES and (often == 0 or KILLED), {name: n for name, n in counts.items() if n > 1}
with one.app_context():
    again(cache.delete_memoized, square, 3)
    assert square(3) == 9 and done.counts()["square-3"] == counts["square-3"] + 1, "what was deleted is still kept"
    cache.set("short", 1, timeout=1)
    assert cache.get("short") == 1 and cache.add("short", 2) is False
    time.sleep(1.3)
    assert cache.get("short") is None, "a value outlives its time"
    cache.set_many({"a": 1, "b": 2})
    assert cache.get_many("a", "b", "none") == [1, 2, None] and cache.cache.inc("a", 4) == 5
    assert cache.delete_many("a", "b")
    cache.clear()
one.test_client().get("/page/1")
assert done.counts()["1"] == counts["1"] + 1, "what was cleared is still kept"
tried = f", {len(again.failures)} calls made again" if again.failures else ""
ok(f"{PAGES} pages and {PAGES} functions by two servers, {f'{often} computed twice' if often else 'each computed once'}{tried}")
