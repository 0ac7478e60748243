import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;

/** Jedis: scripts, transactions, pipelines, publish and subscribe, as of a plain Redis, from many threads. */
class Program {
  static final int ITEMS = 200;

  public static void main(String[] args) {
    Trial.run(() -> {
      var store = RedisClient.create("127.0.0.1", Trial.PORT);
      var heard = new AtomicInteger();
      var order = new AtomicInteger(-1);
      var wrong = new AtomicInteger();
      var news = new JedisPubSub() {
        @Override
        public void onMessage(String channel, String message) {
          heard.incrementAndGet();
          if (order.getAndSet(Integer.parseInt(message)) > Integer.parseInt(message)) {
            wrong.incrementAndGet();
          }
        }
      };
      var listener = new Thread(() -> store.subscribe(news, "news"));
      listener.setDaemon(true);
      listener.start();
      Trial.until(news::isSubscribed, () -> "SUBSCRIBE is not answered");
      String once = "if redis.call('SADD', KEYS[2], ARGV[1]) == 1 then redis.call('RPUSH', KEYS[1], ARGV[1]) end return 1";
      String sha = store.scriptLoad(once);
      for (int number = 0; number < ITEMS; number++) {
        if (number == ITEMS / 2) {
          Trial.half("");
        }
        String text = Integer.toString(number);
        Trial.again(() -> store.evalsha(sha, List.of("list", "seen"), List.of(text)));
        Trial.again(() -> store.publish("news", text));
        Trial.again(() -> {
          try (var transaction = store.multi()) {
            transaction.set("left", text);
            transaction.hset("right", Map.of("value", text));
            return transaction.exec();
          }
        });
        List<Object> both = Trial.again(() -> {
          try (var transaction = store.multi()) {
            transaction.get("left");
            transaction.hget("right", "value");
            return transaction.exec();
          }
        });
        Trial.check(both.get(0).equals(both.get(1)), "a transaction was seen in part: " + both);
      }
      Trial.check(store.lrange("list", 0, -1).equals(numbers()), "the list is not what was pushed");
      Trial.until(() -> Trial.KILLED || heard.get() == ITEMS, () -> heard.get() + " messages were heard");
      Trial.check(wrong.get() == 0, "messages came out of order");
      var pipeline = store.pipelined();
      for (int number = 0; number < 1000; number++) {
        pipeline.set("key:" + number, "value");
      }
      pipeline.sync();
      Trial.check(store.keys("key:*").size() == 1000, store.keys("key:*").size() + " of 1000 keys");
      return ITEMS + " scripts and transactions, none in part; " + heard.get() + " of " + ITEMS + " messages; a pipeline, KEYS";
    });
  }

  static List<String> numbers() {
    var all = new ArrayList<String>();
    for (int number = 0; number < ITEMS; number++) {
      all.add(Integer.toString(number));
    }
    return all;
  }
}
