"""redis-py's own tests, without those of clusters, modules, TLS and systems that are not there."""

from suite import run

NEEDS_OTHERS = [
    "test_scenario",
    "test_multidb",
    "test_auth",
    "test_observability",
    "test_http",
    "maint_notifications",
    "test_credentials.py",
    "test_asyncio/test_credentials.py",
]

run(
    "redis==8.1.0",
    [
        ["tests", "--redis-url=redis://127.0.0.1:PORT/0", "-m", "not redismod and not onlycluster and not ssl and not cp_integration"]
        + [f"--ignore=tests/{name}" for name in NEEDS_OTHERS]
    ],
    {
        "test_bgsave|test_lastsave": "there is no dump file: each write goes to the log",
        "test_monitor.*test_lua_script": "what a script runs is shown by the node that leads its database",
    },
)
