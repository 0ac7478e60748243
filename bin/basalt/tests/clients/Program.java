import java.time.Duration;
import java.util.*;
import java.util.function.Supplier;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.ScanParams;

/**
 * Uses a store of several nodes by Jedis, knowing the one on the port given. Prints KILL when a node is to die, OK at the
 * end.
 */
final class Program {
    private static final int KEYS = 200;
    private static final long RESUMES_WITHIN_MS = 5_000;
    private static final long WRITES_FOR_MS = 4_000;

    private static void expect(String what, Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(what + ": " + found + " instead of " + wanted);
        }
    }

    private static long now() {
        return System.nanoTime() / 1_000_000;
    }

    private static JedisCluster connect(int port) {
        var config = DefaultJedisClientConfig.builder().timeoutMillis(1_000).build();
        var node = Set.of(new HostAndPort("127.0.0.1", port));
        return new JedisCluster(node, config, 20, Duration.ofMillis(RESUMES_WITHIN_MS), new GenericObjectPoolConfig<>());
    }

    private static void commands(JedisCluster client) {
        var keys = new TreeSet<String>();
        for (int n = 0; n < KEYS; n++) {
            keys.add("key:" + n);
        }
        keys.forEach(key -> expect("SET", client.set(key, "of " + key), "OK"));
        keys.forEach(key -> expect("GET", client.get(key), "of " + key));
        var scanned = new TreeSet<String>();
        var scan = client.scanIteration(10, "*");
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
        expect("HSET", client.hset("hash", fields), 50L);
        expect("HGETALL", client.hgetAll("hash"), fields);
        try (var pipeline = client.pipelined()) {
            pipeline.set("{tag}a", "1");
            pipeline.incr("{tag}a");
            var got = pipeline.get("{tag}a");
            pipeline.sync();
            expect("pipeline", got.get(), "2");
        }
        // Jedis has MULTI for one connection only: that of the slot.
        try (var connection = client.getConnectionFromSlot(redis.clients.jedis.util.JedisClusterCRC16.getSlot("{tag}a"))) {
            var transaction = new Transaction(connection);
            transaction.set("{tag}a", "1");
            transaction.incr("{tag}a");
            transaction.get("{tag}a");
            expect("MULTI", transaction.exec(), List.of("OK", 2L, "2"));
        }
    }

    private static void retried(String key, Supplier<String> write) {
        for (long start = now(); ; ) {
            try {
                write.get();
                return;
            } catch (JedisException e) {
                if (now() > start + RESUMES_WITHIN_MS) {
                    throw new AssertionError(key + ": not in time", e);
                }
                java.util.concurrent.locks.LockSupport.parkNanos(50_000_000);
            }
        }
    }

    private static void failover(JedisCluster client) throws InterruptedException {
        System.out.println("KILL");
        var written = new ArrayList<String>();
        long longest = 0;
        for (long begun = now(); now() < begun + WRITES_FOR_MS; ) {
            var key = "failover:" + written.size();
            long start = now();
            retried(key, () -> client.set(key, "of " + key));
            longest = Math.max(longest, now() - start);
            written.add(key);
            Thread.sleep(2);
        }
        expect("writes in time (slowest " + longest + " ms)", longest < RESUMES_WITHIN_MS, true);
        written.forEach(key -> expect("an acknowledged write", client.get(key), "of " + key));
        System.out.println(written.size() + " writes, the slowest in " + longest / 1e3 + " s");
    }

    public static void main(String[] arguments) throws InterruptedException {
        try (var client = connect(Integer.parseInt(arguments[0]))) {
            commands(client);
            failover(client);
        }
        System.out.println("OK");
    }
}
