"""Huey's own tests."""

from suite import run

run("huey==3.5.4", [["huey/tests"]], {})
