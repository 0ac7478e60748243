package basalt.adapter.cql;

import basalt.adapter.Answer;
import basalt.adapter.Reply;
import basalt.adapter.Request;
import basalt.adapter.Shape;
import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;

/** Strings: a row with one value, and a version that lightweight transactions compare. */
final class StringRecords extends Records {
    private static final long FIRST_VERSION = 1;

    private final PreparedStatement get;
    private final PreparedStatement getVersioned;
    private final PreparedStatement set;
    private final PreparedStatement setIfVersion;

    StringRecords(CqlStore store, Shape shape) {
        super(store, shape);
        get = prepared(Statements.select(store.keyspace, shape, List.of("v")));
        getVersioned = prepared(Statements.select(store.keyspace, shape, List.of("v", "version")));
        // A version always: another run may compare it, and null equals nothing.
        set = prepared(Statements.insert(store.keyspace, shape, List.of("v", "version")));
        setIfVersion = prepared(Statements.updateIfVersion(store.keyspace, shape));
    }

    @Override
    public void handle(Request request, Answer answer) throws Exception {
        switch (request.name()) {
            case "GET" -> execute(request, get.bind(key(request)), answer, found -> value(found.one()));
            case "KV.GET" -> getVersioned(request, answer);
            case "SET" -> set(request, answer);
            case "KV.PUT" -> putIfVersion(request, answer);
            case "DEL" -> delete(request, answer);
            case "KV.RANGE" -> scan(request, List.of("v"), answer, row -> new Reply().bulk(row.getByteBuffer(1)));
            default -> throw request.unknown();
        }
    }

    private static ByteBuffer key(Request request) throws IOException {
        return ByteBuffer.wrap(request.key());
    }

    private static Reply value(Row row) {
        return new Reply().bulk(row == null ? null : row.getByteBuffer(0));
    }

    private void getVersioned(Request request, Answer answer) throws IOException {
        BoundStatement statement = getVersioned.bind(key(request));
        if (request.access == Request.Access.LEADER_READ && store.kind != CqlStore.Kind.YCQL) {
            // What a lightweight transaction that is under way decides must be seen.
            statement = statement.setConsistencyLevel(ConsistencyLevel.SERIAL);
        }
        execute(
                request,
                statement,
                answer,
                found -> {
                    Row row = found.one();
                    return row == null
                            ? new Reply().nothing()
                            : new Reply().array(2).bulk(row.getByteBuffer(0)).integer(row.getLong(1));
                });
    }

    private void set(Request request, Answer answer) throws IOException {
        BoundStatement statement = set.bind(ByteBuffer.wrap(request.arg(2)), FIRST_VERSION, key(request));
        execute(request, statement, answer, done -> new Reply().ok());
    }

    private void putIfVersion(Request request, Answer answer) throws IOException {
        long version = request.number(4);
        BoundStatement statement =
                setIfVersion.bind(ByteBuffer.wrap(request.arg(2)), version + 1, key(request), version);
        execute(
                request,
                statement,
                answer,
                done -> done.wasApplied() ? new Reply().integer(version + 1) : new Reply().nothing());
    }
}
