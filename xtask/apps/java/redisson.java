import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.IntegerCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.config.Config;

/** Redisson: locks with its watchdog, a fair lock, a semaphore, maps, an expiring map, a topic, a queue that blocks. */
class Program {
  static final int THREADS = 6;
  static final int TURNS = 25;

  static RedissonClient client() {
    var config = new Config();
    config.setLockWatchdogTimeout(15_000);
    config.useSingleServer().setAddress(Trial.URL).setConnectionMinimumIdleSize(4).setConnectionPoolSize(16)
        .setTimeout(15_000).setRetryAttempts(10);
    return Redisson.create(config);
  }

  public static void main(String[] args) {
    Trial.run(() -> {
      var clients = new RedissonClient[] {client(), client()};
      var held = new AtomicBoolean();
      var heard = new AtomicInteger();
      clients[1].getTopic("news").addListener(Integer.class, (channel, message) -> heard.incrementAndGet());
      Trial.threads(THREADS, number -> {
        var own = clients[number % 2];
        var lock = own.getLock("counter-lock");
        var counter = own.getBucket("counter");
        for (int turn = 0; turn < TURNS; turn++) {
          Trial.again(() -> {
            lock.lock();
            return null;
          });
          Trial.check(held.compareAndSet(false, true), "two hold the lock");
          var before = Trial.again(counter::get);
          int count = before == null ? 0 : (Integer) before;
          Trial.again(() -> {
            counter.set(count + 1);
            return null;
          });
          held.set(false);
          release(lock);
          if (number == 0 && turn == TURNS / 2) {
            Trial.half("");
          }
          int message = turn;
          Trial.again(() -> own.getTopic("news").publish(message));
        }
      });
      int count = (Integer) Trial.again(clients[0].getBucket("counter")::get);
      Trial.check(count == THREADS * TURNS, count + " of " + THREADS * TURNS);
      Trial.until(() -> Trial.KILLED || heard.get() == THREADS * TURNS, () -> heard.get() + " messages were heard");
      maps(clients[0]);
      others(clients);
      return count + " turns under a lock, none at once with another; " + heard.get() + " of " + count
          + " messages; maps, fair lock, semaphore, queue";
    });
  }

  /** A lock() or unlock() whose answer was lost may have been made: the lock is held as often as it was had. */
  static void release(org.redisson.api.RLock lock) {
    Trial.again(() -> {
      while (lock.isHeldByCurrentThread()) {
        lock.unlock();
      }
      return null;
    });
  }

  static void maps(RedissonClient client) {
    var map = client.<String, Integer>getMap("map", new CompositeCodec(StringCodec.INSTANCE, IntegerCodec.INSTANCE));
    for (int number = 0; number < 200; number++) {
      int value = number;
      Trial.again(() -> map.fastPut("key-" + value, value));
    }
    Trial.check(map.size() == 200 && map.get("key-7") == 7, "the map has " + map.size());
    Trial.check(map.putIfAbsent("key-7", 8) == 7 && map.replace("key-7", 7, 9) && map.addAndGet("key-7", 1) == 10, "the map's atomic words");
    Trial.check(map.readAllKeySet().size() == 200, "the map's keys");
    var cache = client.<String, Integer>getMapCache("cache");
    cache.put("brief", 1, 1, TimeUnit.SECONDS);
    cache.put("long", 2);
    Trial.check(cache.get("brief") == 1, "an entry is not there");
    Trial.sleep(1_300);
    Trial.check(cache.get("brief") == null && cache.get("long") == 2, "an entry outlives its time");
  }

  static void others(RedissonClient[] clients) throws Exception {
    var order = new java.util.concurrent.ConcurrentLinkedQueue<Integer>();
    Trial.threads(4, number -> {
      var lock = clients[number % 2].getFairLock("fair");
      lock.lock();
      order.add(number);
      lock.unlock();
    });
    Trial.check(order.size() == 4, "the fair lock was had " + order.size() + " times");
    var semaphore = clients[0].getSemaphore("semaphore");
    semaphore.trySetPermits(3);
    var inside = new AtomicInteger();
    Trial.threads(6, number -> {
      var own = clients[number % 2].getSemaphore("semaphore");
      try {
        own.acquire();
      } catch (InterruptedException error) {
        throw new AssertionError(error);
      }
      Trial.check(inside.incrementAndGet() <= 3, "more than three have a permit");
      Trial.sleep(20);
      inside.decrementAndGet();
      own.release();
    });
    var queue = clients[0].<Integer>getBlockingQueue("queue");
    var taken = new java.util.concurrent.ConcurrentSkipListSet<Integer>();
    Trial.threads(3, number -> {
      try {
        if (number == 0) {
          for (int item = 0; item < 40; item++) {
            clients[1].getBlockingQueue("queue").put(item);
          }
          return;
        }
        for (Integer item; (item = queue.poll(1, TimeUnit.SECONDS)) != null; ) {
          Trial.check(taken.add(item), item + " was taken twice");
        }
      } catch (InterruptedException error) {
        throw new AssertionError(error);
      }
    });
    Trial.check(taken.size() == 40, taken.size() + " of 40 items were taken");
  }
}
