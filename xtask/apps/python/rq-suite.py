"""RQ's own tests."""

from suite import run

run("rq==2.12.0", [["tests"]], {})
