"""django-redis's own tests, with each of its settings that a server alone can serve."""

from suite import run

SETTINGS = ["", "_gzip", "_herd", "_json", "_lz4", "_msgpack", "_sharding", "_zlib", "_zstd"]
# Instead of theirs, which need coverage and many processes.
OWN = ["tests", "-o", "addopts="]

run(
    "django-redis==7.0.0",
    # A process can have one set of settings.
    [OWN + ["-k", f"[sqlite{name}]"] for name in SETTINGS],
    {},
)
