import java.io.File;
import java.time.Duration;
import java.util.*;
import java.util.function.Supplier;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.ScanParams;

/** Uses a store of several nodes by Jedis, knowing the one on the port given. */
final class Program {
    private static final String NAME = "jedis";
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

    private static JedisCluster connect(int port, boolean replicas) {
        var builder = DefaultJedisClientConfig.builder().timeoutMillis(1_000);
        var config = (replicas ? builder.readOnlyForRedisClusterReplicas() : builder).build();
        var node = Set.of(new HostAndPort("127.0.0.1", port));
        return new JedisCluster(node, config, 20, Duration.ofMillis(RESUMES_WITHIN_MS), new GenericObjectPoolConfig<>());
    }

    private static void commands(JedisCluster client) {
        var keys = new TreeSet<String>();
        for (int n = 0; n < KEYS; n++) {
            keys.add(NAME + ":key:" + n);
        }
        keys.forEach(key -> expect("SET", client.set(key, "of " + key), "OK"));
        keys.forEach(key -> expect("GET", client.get(key), "of " + key));
        var scanned = new TreeSet<String>();
        var scan = client.scanIteration(20, NAME + ":key:*");
        while (!scan.isIterationCompleted()) {
            var batch = scan.nextBatch();
            if (batch != null) {
                scanned.addAll(batch.getResult());
            }
        }
        expect("the keys of SCAN", scanned, keys);
        var fields = new HashMap<String, String>();
        for (int n = 0; n < 50; n++) {
            fields.put("field:" + n, "" + n);
        }
        expect("HSET", client.hset(NAME + ":hash", fields), 50L);
        expect("HGETALL", client.hgetAll(NAME + ":hash"), fields);
        var a = "{" + NAME + "}a";
        try (var pipeline = client.pipelined()) {
            pipeline.set(a, "1");
            pipeline.incr(a);
            var got = pipeline.get(a);
            pipeline.sync();
            expect("pipeline", got.get(), "2");
        }
        // Jedis has MULTI for one connection only: that of the slot.
        try (var connection = client.getConnectionFromSlot(redis.clients.jedis.util.JedisClusterCRC16.getSlot(a))) {
            var transaction = new Transaction(connection);
            transaction.set(a, "1");
            transaction.incr(a);
            transaction.get(a);
            expect("MULTI", transaction.exec(), List.of("OK", 2L, "2"));
        }
    }

    /** Reads that ask for a replica; where CLUSTER SLOTS names none the library asks the leader. */
    private static void replicas(JedisCluster client, String key) {
        var get = new ClusterCommandObjects().get(key);
        for (long start = now(); !("of " + key).equals(client.executeCommandToReplica(get)); ) {
            expect("GET from a replica in time", now() < start + RESUMES_WITHIN_MS, true);
        }
    }

    private static int failures = 0;

    private static <T> T retried(String key, Supplier<T> request) {
        for (long start = now(); ; ) {
            try {
                return request.get();
            } catch (JedisException e) {
                failures++;
                if (now() > start + RESUMES_WITHIN_MS) {
                    throw new AssertionError(key + ": not in time", e);
                }
                java.util.concurrent.locks.LockSupport.parkNanos(50_000_000);
            }
        }
    }

    private static void write(JedisCluster client, File end) throws InterruptedException {
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

    public static void main(String[] arguments) throws InterruptedException {
        int port = Integer.parseInt(arguments[0]);
        try (var client = connect(port, false); var any = connect(port, true)) {
            if (arguments[1].equals("FOLLOWERS")) {
                for (int n = 0; n < 30; n++) {
                    var key = "{" + NAME + "}" + n;
                    any.set(key, "of " + key);
                    replicas(any, key);
                }
            } else {
                commands(client);
                replicas(any, NAME + ":key:0");
                write(client, new File(arguments[1]));
            }
        }
        System.out.println("OK");
    }
}
