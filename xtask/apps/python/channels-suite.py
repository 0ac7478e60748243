"""channels_redis's own tests: the layers of Django Channels, over lists and over messages."""

from suite import run

run("channels_redis==4.3.0", [["tests/test_core.py", "tests/test_pubsub.py"]], {})
