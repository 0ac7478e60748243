"""walrus's own tests: containers, models, locks, rate limits, caches, streams, completion."""

from suite import run

PARTS = ["autocomplete", "cache", "containers", "counter", "database", "lock", "models", "rate_limit", "streams", "graph"]

run("walrus==0.9.8", [[f"walrus/tests/{part}.py" for part in PARTS]], {})
