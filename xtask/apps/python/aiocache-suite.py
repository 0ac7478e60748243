"""aiocache's own tests with a server: values, locks, decorators, plugins."""

from suite import run

# Instead of theirs, which measure coverage and take each warning for an error.
OWN = ["-o", "addopts=", "-o", "filterwarnings=default"]

run(
    "aiocache==0.12.3",
    [OWN + ["tests/acceptance", "-k", "redis or Redis"]],
    {"test_locking_dogpile": "it goes by the speed of the machine, and fails on redis-server too at times"},
)
