"""Celery's own tests with a server and one worker: its result backend, tasks, canvas, inspection."""

from suite import run

# What they test needs other servers, or takes many minutes of memory's growth.
NEEDS_OTHERS = ["backend", "database_backend", "cache_backend", "mem_leak_in_exception_handling", "events_state_memory_leak"]

run(
    "celery==5.7.0",
    [
        # More than half of them, each with several tasks.
        ["t/integration/test_canvas.py"],
        ["t/integration"] + [f"--ignore=t/integration/test_{name}.py" for name in [*NEEDS_OTHERS, "canvas"]],
    ],
    {},
    env={"TEST_BROKER": "redis://127.0.0.1:PORT/0", "TEST_BACKEND": "redis://127.0.0.1:PORT/0", "REDIS_PORT": "PORT"},
    # The first one starts the worker.
    seconds=120,
)
