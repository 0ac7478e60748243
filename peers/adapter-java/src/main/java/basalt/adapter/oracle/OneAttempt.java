package basalt.adapter.oracle;

import basalt.adapter.Trouble;
import java.net.ConnectException;
import java.util.Map;
import oracle.nosql.driver.RetryHandler;
import oracle.nosql.driver.RetryableException;
import oracle.nosql.driver.kv.AuthenticationException;
import oracle.nosql.driver.kv.StoreAccessTokenProvider;
import oracle.nosql.driver.ops.Request;
import oracle.nosql.driver.ops.RetryStats;

/**
 * One attempt a request: attempts are made, and counted, by the laboratory.
 *
 * <p>The SDK's retry handler is asked about errors that the store answers. About a connection that is refused or breaks it is
 * not asked: the SDK tries again, without a pause, until the request's time is over. But it asks for authorization
 * before every attempt, so this is where a further one is refused. An attempt after a login that has expired is none.
 */
final class OneAttempt extends StoreAccessTokenProvider implements RetryHandler {
    OneAttempt() {}

    OneAttempt(String user, char[] password) {
        super(user, password);
    }

    /** A request that could not be sent, or whose connection broke. */
    static final class Failed extends RuntimeException {
        private final boolean refused;

        private Failed(RetryStats stats) {
            super("the connection failed: " + names(stats));
            refused = stats.getExceptionMap().keySet().stream().anyMatch(ConnectException.class::isAssignableFrom);
        }

        private static String names(RetryStats stats) {
            Map<Class<? extends Throwable>, Integer> found = stats.getExceptionMap();
            return String.join(", ", found.keySet().stream().map(Class::getSimpleName).toList());
        }

        Trouble trouble() {
            return refused ? Trouble.unreachable() : Trouble.disconnected();
        }
    }

    @Override
    public String getAuthorizationString(Request request) {
        RetryStats stats = request == null ? null : request.getRetryStats();
        if (stats != null && stats.getRetries() > stats.getNumExceptions(AuthenticationException.class)) {
            throw new Failed(stats);
        }
        return super.getAuthorizationString(request);
    }

    @Override
    public int getNumRetries() {
        return 0;
    }

    @Override
    public boolean doRetry(Request request, int retried, RetryableException failed) {
        return false;
    }

    @Override
    public void delay(Request request, int retried, RetryableException failed) {}
}
