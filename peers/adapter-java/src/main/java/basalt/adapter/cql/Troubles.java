package basalt.adapter.cql;

import basalt.adapter.Trouble;
import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.DriverTimeoutException;
import com.datastax.oss.driver.api.core.NoNodeAvailableException;
import com.datastax.oss.driver.api.core.NodeUnavailableException;
import com.datastax.oss.driver.api.core.RequestThrottlingException;
import com.datastax.oss.driver.api.core.connection.BusyConnectionException;
import com.datastax.oss.driver.api.core.connection.ClosedConnectionException;
import com.datastax.oss.driver.api.core.connection.HeartbeatException;
import com.datastax.oss.driver.api.core.servererrors.BootstrappingException;
import com.datastax.oss.driver.api.core.servererrors.CASWriteUnknownException;
import com.datastax.oss.driver.api.core.servererrors.OverloadedException;
import com.datastax.oss.driver.api.core.servererrors.QueryConsistencyException;
import com.datastax.oss.driver.api.core.servererrors.ServerError;
import com.datastax.oss.driver.api.core.servererrors.UnavailableException;
import java.util.concurrent.CompletionException;

/** What the driver's exceptions say of a request. */
final class Troubles {
    private Troubles() {}

    static Throwable of(Throwable failed) {
        Throwable cause = failed instanceof CompletionException && failed.getCause() != null ? failed.getCause() : failed;
        if (cause instanceof NoNodeAvailableException || cause instanceof NodeUnavailableException) {
            return Trouble.unreachable();
        }
        if (cause instanceof AllNodesFailedException all) {
            return ofAll(all);
        }
        if (cause instanceof UnavailableException) {
            return Trouble.down();
        }
        if (cause instanceof OverloadedException
                || cause instanceof BootstrappingException
                || cause instanceof BusyConnectionException
                || cause instanceof RequestThrottlingException) {
            return Trouble.busy();
        }
        // Timeouts and failures among the replicas: some may have done it.
        if (cause instanceof QueryConsistencyException
                || cause instanceof CASWriteUnknownException
                || cause instanceof DriverTimeoutException) {
            return Trouble.timeout();
        }
        if (cause instanceof ClosedConnectionException
                || cause instanceof HeartbeatException
                || cause instanceof ServerError
                || cause instanceof java.io.IOException) {
            return Trouble.disconnected();
        }
        return cause;
    }

    /** Every node that was tried has failed: refused only if all of them refused. */
    private static Throwable ofAll(AllNodesFailedException all) {
        boolean refused =
                all.getAllErrors().values().stream()
                        .flatMap(java.util.List::stream)
                        .allMatch(
                                error ->
                                        error instanceof NodeUnavailableException
                                                || error instanceof UnavailableException
                                                || error instanceof OverloadedException
                                                || error instanceof BootstrappingException
                                                || error instanceof BusyConnectionException);
        return refused ? Trouble.down() : Trouble.disconnected();
    }
}
