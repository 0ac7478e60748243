import java.util.Map;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;

/** Counts visits with Jedis. Argument: the port of a node. */
class Visits {
    public static void main(String[] args) {
        var port = args.length > 0 ? Integer.parseInt(args[0]) : 7000;
        var config = DefaultJedisClientConfig.builder().password(System.getenv("BASALT_PASSWORD")).build();
        try (var store = new JedisCluster(Set.of(new HostAndPort("127.0.0.1", port)), config)) {
            store.hset("{user:7}:session", Map.of("name", "Ada", "city", "London"));
            store.expire("{user:7}:session", 3600);

            // Both or neither: they are in one slot.
            var script = "redis.call('HSET', KEYS[2], 'last', ARGV[1]) return redis.call('INCR', KEYS[1])";
            var now = Long.toString(System.currentTimeMillis() / 1000);
            var visits = store.eval(script, 2, "{user:7}:visits", "{user:7}:session", now);

            System.out.println("visit " + visits + " of " + store.hget("{user:7}:session", "name"));
        }
    }
}
