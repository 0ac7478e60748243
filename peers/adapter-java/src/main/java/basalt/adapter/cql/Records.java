package basalt.adapter.cql;

import basalt.adapter.Answer;
import basalt.adapter.Handler;
import basalt.adapter.Reply;
import basalt.adapter.Request;
import basalt.adapter.Shape;
import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/** Requests on rows of one table. */
abstract class Records implements Handler {
    final CqlStore store;
    final Shape shape;
    private final ConcurrentHashMap<String, PreparedStatement> prepared = new ConcurrentHashMap<>();
    private final PreparedStatement delete;

    Records(CqlStore store, Shape shape) {
        this.store = store;
        this.shape = shape;
        this.delete = store.session.prepare(Statements.delete(store.keyspace, shape));
    }

    /** A statement; each text is prepared once. */
    final PreparedStatement prepared(String text) {
        PreparedStatement known = prepared.get(text);
        return known != null ? known : prepared.computeIfAbsent(text, store.session::prepare);
    }

    final ConsistencyLevel level(Request request) {
        return switch (request.access) {
            case READ -> store.levels.read();
            case LEADER_READ -> store.levels.leaderRead();
            case WRITE, REPEATABLE -> store.levels.write();
        };
    }

    /** Executes a statement, and answers with what {@code read} makes of its result. */
    final void execute(Request request, BoundStatement statement, Answer answer, Function<AsyncResultSet, Reply> read) {
        BoundStatement ready = statement.setIdempotent(request.access != Request.Access.WRITE);
        if (ready.getConsistencyLevel() == null) {
            ready = ready.setConsistencyLevel(level(request));
        }
        store.session
                .executeAsync(ready)
                .thenApply(read)
                .whenComplete(
                        (reply, failed) -> {
                            if (failed == null) {
                                answer.reply(reply);
                            } else {
                                answer.fail(Troubles.of(failed));
                            }
                        });
    }

    final void delete(Request request, Answer answer) throws IOException {
        // CQL does not tell whether it was there.
        execute(request, delete.bind(ByteBuffer.wrap(request.key())), answer, done -> new Reply().integer(1));
    }

    /** Rows from the place of a key's hash on. */
    final void scan(Request request, List<String> columns, Answer answer, Function<Row, Reply> record) throws IOException {
        int limit = request.limit();
        String text = Statements.scan(store.keyspace, shape, columns, request.isAfter());
        BoundStatement statement =
                prepared(text)
                        .bind(ByteBuffer.wrap(request.boundKey()), limit)
                        .setPageSize(limit)
                        .setIdempotent(true)
                        .setConsistencyLevel(level(request));
        List<Reply> rows = new ArrayList<>();
        store.session.executeAsync(statement).whenComplete((page, failed) -> page(page, failed, rows, answer, record));
    }

    private void page(AsyncResultSet page, Throwable failed, List<Reply> rows, Answer answer, Function<Row, Reply> record) {
        if (failed != null) {
            answer.fail(Troubles.of(failed));
            return;
        }
        for (Row row : page.currentPage()) {
            rows.add(new Reply().array(2).bulk(row.getByteBuffer(0)).append(record.apply(row)));
        }
        if (page.hasMorePages()) {
            page.fetchNextPage().whenComplete((next, broken) -> page(next, broken, rows, answer, record));
            return;
        }
        // All at once, so there is nowhere to go on.
        Reply reply = new Reply().array(2).nothing().array(rows.size());
        rows.forEach(reply::append);
        answer.reply(reply);
    }
}
