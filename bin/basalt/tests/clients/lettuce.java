import io.lettuce.core.*;
import io.lettuce.core.cluster.*;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import java.io.File;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * Uses a store of several nodes by Lettuce, knowing the one on the port given. It asks CLUSTER NODES who serves what, where
 * a node is the master of some slots and nobody's replica: its ReadFrom finds no replicas, a connection to a node does.
 */
final class Program {
    private static final String NAME = "lettuce";
    private static final int KEYS = 200;
    private static final long RESUMES_WITHIN_MS = 5_000;

    private static void expect(String what, Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(what + ": " + found + " instead of " + wanted);
        }
    }

    private static long now() {
        return System.nanoTime() / 1_000_000;
    }

    private static RedisClusterClient connect(int port) {
        var client = RedisClusterClient.create(RedisURI.create("127.0.0.1", port));
        // By itself the library asks once where slots are, and again only when it is sent elsewhere.
        var refresh = ClusterTopologyRefreshOptions.builder()
            .enablePeriodicRefresh(Duration.ofSeconds(1))
            .enableAllAdaptiveRefreshTriggers()
            .adaptiveRefreshTriggersTimeout(Duration.ofMillis(200))
            .build();
        client.setOptions(ClusterClientOptions.builder()
            .topologyRefreshOptions(refresh)
            .socketOptions(SocketOptions.builder().connectTimeout(Duration.ofSeconds(1)).build())
            .timeoutOptions(TimeoutOptions.enabled(Duration.ofSeconds(1)))
            .build());
        return client;
    }

    private static void commands(StatefulRedisClusterConnection<String, String> connection) throws Exception {
        var client = connection.sync();
        var keys = new TreeSet<String>();
        for (int n = 0; n < KEYS; n++) {
            keys.add(NAME + ":key:" + n);
        }
        keys.forEach(key -> expect("SET", client.set(key, "of " + key), "OK"));
        keys.forEach(key -> expect("GET", client.get(key), "of " + key));
        var pages = ScanIterator.scan(client, ScanArgs.Builder.matches(NAME + ":key:*").limit(20));
        var scanned = new TreeSet<String>();
        pages.forEachRemaining(scanned::add);
        expect("the keys of SCAN", scanned, keys);
        expect("keys that KEYS finds on all nodes", client.keys(NAME + ":key:*").size(), KEYS);
        expect("DBSIZE of all nodes", client.dbsize() >= KEYS, true);
        var all = keys.toArray(new String[0]);
        expect("MGET over slots", client.mget(all).size(), KEYS);
        var fields = new HashMap<String, String>();
        for (int n = 0; n < 50; n++) {
            fields.put("field:" + n, "" + n);
        }
        expect("HSET", client.hset(NAME + ":hash", fields), 50L);
        expect("HGETALL", client.hgetall(NAME + ":hash"), fields);
        var a = "{" + NAME + "}a";
        var several = connection.async();
        several.set(a, "1");
        several.incr(a);
        expect("pipeline", several.get(a).get(1, TimeUnit.SECONDS), "2");
        // Lettuce has MULTI for one connection only: that to the node.
        var node = connection.getPartitions().getPartitionBySlot(SlotHash.getSlot(a)).getNodeId();
        var one = client.getStatefulConnection().getConnection(node).sync();
        one.multi();
        one.set(a, "1");
        one.incr(a);
        one.get(a);
        var results = one.exec();
        expect("MULTI", List.of(results.get(0), results.get(1), results.get(2)), List.of("OK", 2L, "2"));
    }

    /** Any of several nodes may be asked: with ReadFrom.ANY all masters of a slot, which is one. */
    private static void reads(RedisClusterClient client) {
        try (var connection = client.connect()) {
            connection.setReadFrom(ReadFrom.REPLICA_PREFERRED);
            for (int n = 0; n < KEYS; n++) {
                var key = NAME + ":key:" + n;
                expect("GET with replicas preferred", connection.sync().get(key), "of " + key);
            }
        }
    }

    /** Every node answers for the slots that it follows, to a connection that says READONLY. */
    private static void followers(StatefulRedisClusterConnection<String, String> connection) {
        var key = "{" + NAME + "}0";
        connection.sync().set(key, "of " + key);
        for (var node : connection.getPartitions()) {
            var one = connection.getConnection(node.getNodeId()).sync();
            one.readOnly();
            for (long start = now(); !("of " + key).equals(one.get(key)) && now() < start + RESUMES_WITHIN_MS; ) {
                Thread.onSpinWait();
            }
            expect("GET from " + node, one.get(key), "of " + key);
        }
    }

    private static int failures = 0;

    private static <T> T retried(String key, Supplier<T> request) {
        for (long start = now(); ; ) {
            try {
                return request.get();
            } catch (RedisException e) {
                failures++;
                if (now() > start + RESUMES_WITHIN_MS) {
                    throw new AssertionError(key + ": not in time", e);
                }
                java.util.concurrent.locks.LockSupport.parkNanos(50_000_000);
            }
        }
    }

    private static void write(RedisAdvancedClusterCommands<String, String> client, File end) throws InterruptedException {
        System.out.println("WRITING");
        int written = 0;
        long longest = 0;
        for (; !end.exists(); written++) {
            var key = NAME + ":written:" + written;
            long start = now();
            retried(key, () -> client.set(key, "of " + key));
            longest = Math.max(longest, now() - start);
            Thread.sleep(3);
        }
        expect("writes in time (slowest " + longest + " ms)", longest < RESUMES_WITHIN_MS, true);
        for (int n = 0; n < written; n++) {
            var key = NAME + ":written:" + n;
            expect("an acknowledged write", retried(key, () -> client.get(key)), "of " + key);
        }
        System.out.println(written + " writes, the slowest in " + longest / 1e3 + " s, " + failures + " tried again");
    }

    public static void main(String[] arguments) throws Exception {
        var client = connect(Integer.parseInt(arguments[0]));
        try (var connection = client.connect()) {
            if (arguments[1].equals("FOLLOWERS")) {
                followers(connection);
            } else {
                commands(connection);
                reads(client);
                write(connection.sync(), new File(arguments[1]));
            }
        }
        System.out.println("OK");
        // The library's own threads would live on for seconds.
        System.exit(0);
    }
}
