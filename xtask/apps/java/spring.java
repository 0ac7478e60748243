import jakarta.servlet.http.HttpSession;
import java.net.CookieManager;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.cache.annotation.CacheEvict;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Import;
import org.springframework.context.event.EventListener;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.session.FindByIndexNameSessionRepository;
import org.springframework.session.Session;
import org.springframework.session.data.redis.config.annotation.web.http.EnableRedisIndexedHttpSession;
import org.springframework.session.events.SessionExpiredEvent;
import org.springframework.stereotype.Service;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;

/** Spring Boot: indexed sessions with events of their expiry, a cache, and templates, in two servers of one application. */
@SpringBootConfiguration
@EnableAutoConfiguration
@Import(Program.Squares.class)
@EnableCaching
@EnableRedisIndexedHttpSession(maxInactiveIntervalInSeconds = 60)
@RestController
public class Program {
  static final int USERS = 10;
  static final int VISITS = 20;
  static final AtomicInteger computed = new AtomicInteger();
  static final Map<String, Boolean> expired = new ConcurrentHashMap<>();

  @Service
  public static class Squares {
    @Cacheable("squares")
    public String of(int number) {
      computed.incrementAndGet();
      return Integer.toString(number * number);
    }

    @CacheEvict(value = "squares", allEntries = true)
    public void forget() {}
  }

  private final Squares squares;

  public Program(Squares squares) {
    this.squares = squares;
  }

  @GetMapping("/visit/{user}/{number}")
  public String visit(HttpSession session, @PathVariable String user, @PathVariable int number) {
    session.setAttribute("visits", number);
    session.setAttribute(FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME, user);
    return Integer.toString(number);
  }

  @GetMapping("/visits")
  public String visits(HttpSession session) {
    return String.valueOf(session.getAttribute("visits"));
  }

  @GetMapping("/brief")
  public String brief(HttpSession session) {
    session.setMaxInactiveInterval(1);
    session.setAttribute("visits", 1);
    return session.getId();
  }

  @GetMapping("/square/{number}")
  public String square(@PathVariable int number) {
    return squares.of(number);
  }

  @GetMapping("/forget")
  public String forget() {
    squares.forget();
    return "forgotten";
  }

  @EventListener
  public void over(SessionExpiredEvent event) {
    expired.put(event.getSessionId(), true);
  }

  record Server(ConfigurableApplicationContext context, String url) {
    static Server start() {
      var application = new SpringApplication(Program.class);
      application.setDefaultProperties(Map.of("server.port", "0", "spring.data.redis.url", Trial.URL + "/0",
          "spring.data.redis.timeout", "15s", "spring.main.banner-mode", "off", "logging.level.root", "WARN",
          "spring.cache.type", "redis", "server.servlet.session.persistent", "false"));
      var context = application.run();
      return new Server(context, "http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port"));
    }
  }

  /** A browser: a cookie that both servers get. */
  static final class User {
    final CookieManager cookies = new CookieManager();
    final HttpClient client = HttpClient.newBuilder().cookieHandler(cookies).connectTimeout(Duration.ofSeconds(15)).build();

    String ask(Server server, String path) throws Exception {
      var request = HttpRequest.newBuilder(URI.create(server.url + path)).timeout(Duration.ofSeconds(30)).build();
      var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
      if (answer.statusCode() != 200) {
        throw new IllegalStateException(path + ": " + answer.statusCode() + " " + answer.body());
      }
      return answer.body();
    }
  }

  public static void main(String[] args) {
    Trial.run(() -> {
      var servers = new Server[] {Server.start(), Server.start()};
      var users = new ArrayList<User>();
      for (int number = 0; number < USERS; number++) {
        users.add(new User());
      }
      for (int visit = 1; visit <= VISITS; visit++) {
        if (visit == VISITS / 2) {
          Trial.half("");
        }
        for (int number = 0; number < USERS; number++) {
          var user = users.get(number);
          String path = "/visit/user-" + number + "/" + visit;
          int turn = number + visit;
          Trial.again(() -> user.ask(servers[turn % 2], path));
          var seen = Trial.again(() -> user.ask(servers[(turn + 1) % 2], "/visits"));
          Trial.check(seen.equals(Integer.toString(visit)), "user " + number + " saw " + seen + " for " + visit);
          Trial.check(Trial.again(() -> user.ask(servers[turn % 2], "/square/" + turn)).equals(Integer.toString(turn * turn)), "a square is wrong");
        }
      }
      int squares = USERS + VISITS - 1;
      Trial.check(computed.get() == squares || Trial.KILLED && computed.get() > squares, computed.get() + " squares were computed for " + squares);
      index(servers[0]);
      users.get(0).ask(servers[0], "/forget");
      int before = computed.get();
      users.get(0).ask(servers[1], "/square/5");
      Trial.check(computed.get() == before + 1, "what was evicted is still kept");
      var template = servers[0].context.getBean(StringRedisTemplate.class);
      template.opsForList().rightPushAll("list", "a", "b", "c");
      Trial.check(template.opsForList().range("list", 0, -1).size() == 3, "the template's list");
      var brief = new User();
      brief.ask(servers[0], "/brief");
      Trial.until(() -> !expired.isEmpty(), () -> "no event tells that a session has expired");
      return USERS * VISITS + " visits of " + USERS + " users over two servers, none forgotten; found by name; expiry told; "
          + squares + " squares cached, eviction of all";
    });
  }

  @SuppressWarnings("unchecked")
  static void index(Server server) {
    var sessions = (FindByIndexNameSessionRepository<Session>) server.context.getBean(FindByIndexNameSessionRepository.class);
    int found = Trial.again(() -> sessions.findByPrincipalName("user-3")).size();
    Trial.check(found == 1 || Trial.KILLED && found > 1, found + " sessions of user 3");
  }
}
