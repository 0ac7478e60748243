<?php
// Counts visits with phpredis. Argument: the port of a node.
$port = $argv[1] ?? "7000";
$store = new RedisCluster(null, ["127.0.0.1:$port"], 1.5, 1.5, false, getenv("BASALT_PASSWORD") ?: null);

$store->hMSet("{user:7}:session", ["name" => "Ada", "city" => "London"]);
$store->expire("{user:7}:session", 3600);

// Both or neither: they are in one slot.
[$visits] = $store->multi()
    ->incr("{user:7}:visits")
    ->hSet("{user:7}:session", "last", time())
    ->exec();

echo "visit $visits of ", $store->hGet("{user:7}:session", "name"), "\n";
