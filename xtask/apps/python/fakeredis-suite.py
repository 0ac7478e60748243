"""fakeredis's own tests that it runs against a real server, to know what to imitate."""

import os

from suite import run

# A comparison that fails is not made smaller, which takes many minutes and gigabytes.
PLUGIN = """
from hypothesis import Phase, settings

settings.register_profile("unshrunk", phases=[Phase.explicit, Phase.generate], database=None)
settings.load_profile("unshrunk")
"""
os.makedirs("plugins", exist_ok=True)
with open("plugins/unshrunk.py", "w") as file:
    file.write(PLUGIN)

TESTS = ["test/test_mixins", "test/test_async", "test/test_hypothesis", "-m", "not fake"]

run(
    "fakeredis==2.41.0",
    # Commands drawn at random are compared with what fakeredis answers: the same ones each time.
    [TESTS + ["-p", "unshrunk", "--hypothesis-seed=1"]],
    {
        "test_bgsave|test_lastsave|test_save": "there is no dump file: each write goes to the log",
        "test_acl_whoami|test_auth": "once the store keeps the user `default`, its password is set with ACL SETUSER, not with requirepass",
        "test_eval_flushall": "a script is of one database",
        "test_function_help": "HELP is written from the command table",
        "test_xtrim_approximate": "nodes of a stream have a fixed size here",
    },
    ports=(6390,),
    env={"FAKEREDIS_HYPOTHESIS_EXAMPLES": "40"},
)
