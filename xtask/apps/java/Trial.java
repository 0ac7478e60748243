import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/** What the programs share: where the store is, what they say, and how calls are made again. */
final class Trial {
  static final String URL = System.getenv("BASALT_URL");
  static final int PORT = Integer.parseInt(System.getenv("BASALT_PORT"));
  static final boolean KILLED = "killed".equals(System.getenv("BASALT_SITUATION"));
  static final AtomicInteger failures = new AtomicInteger();

  private Trial() {}

  /** The node that leads the shard of the key, or of database 0, is to be killed now. */
  static void half(String key) {
    System.out.println(("HALF " + key).trim());
    System.out.flush();
  }

  static void ok(String what) {
    System.out.println("OK " + what);
    System.out.flush();
    Runtime.getRuntime().halt(0);
  }

  static void check(boolean holds, String why) {
    if (!holds) {
      throw new AssertionError(why);
    }
  }

  /** Makes a call again where it fails, as an application does whose server is replaced. Counts failures. */
  static <T> T again(Callable<T> call) {
    for (int left = 60; ; left--) {
      try {
        return call.call();
      } catch (Exception error) {
        failures.incrementAndGet();
        System.err.println("made again after " + error);
        if (left == 0 || !KILLED) {
          throw new AssertionError(error);
        }
        sleep(250);
      }
    }
  }

  static String madeAgain() {
    return failures.get() == 0 ? "" : "; " + failures.get() + " calls made again";
  }

  static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException error) {
      throw new AssertionError(error);
    }
  }

  /** Waits until something holds. */
  static void until(BooleanSupplier holds, Supplier<String> why) {
    long end = System.currentTimeMillis() + 90_000;
    while (!holds.getAsBoolean()) {
      check(System.currentTimeMillis() < end, why.get());
      sleep(20);
    }
  }

  /** Runs a program to its end, whatever threads it leaves; what it throws is what it saw. */
  static void run(Callable<String> program) {
    try {
      ok(program.call() + madeAgain());
    } catch (Throwable error) {
      error.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }

  /** Does the work of each number in a thread of its own; an error if one fails. */
  static void threads(int count, java.util.function.IntConsumer work) throws Exception {
    var pool = java.util.concurrent.Executors.newFixedThreadPool(count);
    var all = new java.util.ArrayList<java.util.concurrent.Future<?>>();
    for (int number = 0; number < count; number++) {
      int own = number;
      all.add(pool.submit(() -> work.accept(own)));
    }
    for (var one : all) {
      one.get();
    }
    pool.shutdown();
  }
}
