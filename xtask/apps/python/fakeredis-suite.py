"""fakeredis's own tests that it runs against a real server, to know what to imitate."""

import os

from suite import run

# A comparison that fails is not made smaller, which takes many minutes and gigabytes. One may take as long as a busy machine needs.
PLUGIN = """
from hypothesis import Phase, settings

settings.register_profile("unshrunk", phases=[Phase.explicit, Phase.generate], database=None, deadline=None)
settings.load_profile("unshrunk")
"""
os.makedirs("plugins", exist_ok=True)
with open("plugins/unshrunk.py", "w") as file:
    file.write(PLUGIN)

# A run of its own for each: together they take longer than a run may.
FOLDERS = ["test/test_mixins", "test/test_async", "test/test_hypothesis"]

run(
    "fakeredis==2.41.0",
    # Commands drawn at random are compared with what fakeredis answers: the same ones each time.
    [[folder, "-m", "not fake", "-p", "unshrunk", "--hypothesis-seed=1"] for folder in FOLDERS],
    {
        "test_bgsave|test_lastsave|test_save|test_hypothesis/test_server": "there is no dump file: each write goes to the log",
        "test_hypothesis/test_transaction": "a transaction is of one shard, and databases are in several: its MOVE is refused",
        "test_acl_whoami|test_auth": "once the store keeps the user `default`, its password is set with ACL SETUSER, not with requirepass",
        "test_eval_flushall": "a script is of one database",
        "test_function_help": "HELP is written from the command table",
        "test_xtrim_approximate": "nodes of a stream have a fixed size here",
        "test_eval_blpop|test_bitcount_error_v6": "left out by fakeredis for a Redis of the version that INFO tells, 7.4",
        "test_xinfo_groups_lag_with_deleted_entries": "for 7.4 it wants another lag of an empty stream than 7.0 and this store tell",
    },
    ports=(6390,),
    env={"FAKEREDIS_HYPOTHESIS_EXAMPLES": "40"},
    # Hundreds of commands, each of which is made twice, on a machine that may be busy.
    seconds=300,
)
