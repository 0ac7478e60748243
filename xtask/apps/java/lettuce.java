import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/** Lettuce: one connection for many threads, scripts, transactions, blocking pops, publish and subscribe. */
class Program {
  static final int ITEMS = 200;

  static RedisClient client() {
    var uri = RedisURI.create(Trial.URL);
    uri.setTimeout(Duration.ofSeconds(15));
    return RedisClient.create(uri);
  }

  public static void main(String[] args) {
    Trial.run(() -> {
      var client = client();
      var store = client.connect().sync();
      var heard = new AtomicInteger();
      var news = client.connectPubSub();
      news.addListener(new RedisPubSubAdapter<>() {
        @Override
        public void message(String channel, String message) {
          heard.incrementAndGet();
        }
      });
      news.sync().subscribe("news");
      var popped = new ConcurrentHashMap<String, Integer>();
      var closing = new AtomicBoolean();
      var consumers = new ArrayList<Thread>();
      for (int number = 0; number < 3; number++) {
        var own = client.connect().sync();
        var consumer = new Thread(() -> {
          while (!closing.get()) {
            var item = Trial.again(() -> own.blpop(1, "queue"));
            if (item != null) {
              popped.merge(item.getValue(), 1, Integer::sum);
            }
          }
        });
        consumer.start();
        consumers.add(consumer);
      }
      String once = "if redis.call('SADD', KEYS[2], ARGV[1]) == 1 then redis.call('RPUSH', KEYS[1], ARGV[1]) end return 1";
      for (int number = 0; number < ITEMS; number++) {
        if (number == ITEMS / 2) {
          Trial.half("");
        }
        String text = Integer.toString(number);
        Trial.again(() -> store.eval(once, ScriptOutputType.INTEGER, new String[] {"queue", "seen"}, text));
        Trial.again(() -> store.publish("news", text));
      }
      Trial.until(() -> Trial.again(() -> store.llen("queue")) == 0, () -> "the queue is not emptied");
      closing.set(true);
      for (var consumer : consumers) {
        consumer.join();
      }
      int lost = ITEMS - popped.size();
      // An element whose answer is lost with the node is popped all the same; each consumer waits for one.
      Trial.check(Trial.KILLED ? lost <= 3 : lost == 0, lost + " elements were never popped");
      Trial.check(popped.values().stream().allMatch(often -> often == 1), "an element was popped twice");
      Trial.until(() -> Trial.KILLED || heard.get() == ITEMS, () -> heard.get() + " messages were heard");
      Trial.threads(4, number -> {
        var own = client.connect().sync();
        for (int turn = 0; turn < 20; turn++) {
          while (true) {
            own.watch("watched");
            var value = own.get("watched");
            own.multi();
            own.set("watched", Integer.toString(value == null ? 1 : Integer.parseInt(value) + 1));
            if (!own.exec().wasDiscarded()) {
              break;
            }
          }
        }
      });
      Trial.check("80".equals(store.get("watched")), store.get("watched") + " of 80 watched");
      return ITEMS + " elements popped, " + (lost == 0 ? "each once" : lost + " lost with the node") + "; " + heard.get() + " of "
          + ITEMS + " messages; WATCH by four threads";
    });
  }
}
