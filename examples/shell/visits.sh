#!/bin/sh
# Counts visits with redis-cli. $1: the port of a node.
set -eu
port=${1:-7000}
if [ -n "${BASALT_PASSWORD:-}" ]; then export REDISCLI_AUTH="$BASALT_PASSWORD"; fi
ask() { redis-cli -c -p "$port" "$@"; }

ask HSET '{user:7}:session' name Ada city London >/dev/null
ask EXPIRE '{user:7}:session' 3600 >/dev/null
# Both or neither: they are in one slot.
visits=$(ask EVAL 'redis.call("HSET", KEYS[2], "last", ARGV[1]) return redis.call("INCR", KEYS[1])' 2 \
    '{user:7}:visits' '{user:7}:session' "$(date +%s)")
echo "visit $visits of $(ask HGET '{user:7}:session' name)"
