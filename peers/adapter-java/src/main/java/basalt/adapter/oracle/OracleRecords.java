package basalt.adapter.oracle;

import basalt.adapter.Blocking;
import basalt.adapter.Reply;
import basalt.adapter.Request;
import basalt.adapter.Shape;
import basalt.adapter.Trouble;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import oracle.nosql.driver.NoSQLException;
import oracle.nosql.driver.NoSQLHandle;
import oracle.nosql.driver.RequestTimeoutException;
import oracle.nosql.driver.SecurityInfoNotReadyException;
import oracle.nosql.driver.SystemException;
import oracle.nosql.driver.ThrottlingException;
import oracle.nosql.driver.Version;
import oracle.nosql.driver.ops.DeleteRequest;
import oracle.nosql.driver.ops.GetRequest;
import oracle.nosql.driver.ops.GetResult;
import oracle.nosql.driver.ops.PrepareRequest;
import oracle.nosql.driver.ops.PreparedStatement;
import oracle.nosql.driver.ops.PutRequest;
import oracle.nosql.driver.ops.PutResult;
import oracle.nosql.driver.ops.QueryRequest;
import oracle.nosql.driver.values.BinaryValue;
import oracle.nosql.driver.values.FieldValue;
import oracle.nosql.driver.values.IntegerValue;
import oracle.nosql.driver.values.MapValue;
import oracle.nosql.driver.values.StringValue;

/** Requests on rows of one table. A hash has a column for each field, numbered; a string has one. */
final class OracleRecords implements Blocking.Call {
    private final OracleStore store;
    private final Shape shape;
    private final String table;
    private final ConcurrentHashMap<String, PreparedStatement> prepared = new ConcurrentHashMap<>();
    /** The version that each token has read last, for its write that compares versions. */
    private final ConcurrentHashMap<Integer, Version> read = new ConcurrentHashMap<>();

    OracleRecords(OracleStore store, Shape shape) {
        this.store = store;
        this.shape = shape;
        this.table = table(shape);
    }

    private static String table(Shape shape) {
        return shape.hash() ? "basalt_usertable" : "basalt_userstrings";
    }

    static String createTable(Shape shape) {
        StringBuilder columns = new StringBuilder();
        int count = shape.hash() ? shape.fields().size() : 1;
        for (int field = 0; field < count; field++) {
            columns.append(", ").append(column(field)).append(" BINARY");
        }
        return "CREATE TABLE IF NOT EXISTS " + table(shape) + " (k STRING" + columns + ", PRIMARY KEY (k))";
    }

    private static String column(int field) {
        return "f" + field;
    }

    @Override
    public Reply call(Request request) throws IOException {
        NoSQLHandle handle = store.handle(request.token);
        return switch (request.name()) {
            case "HGETALL" -> all(get(handle, request).getValue());
            case "HMGET" -> some(get(handle, request).getValue(), request);
            case "HSET" -> set(handle, request);
            case "GET" -> value(get(handle, request));
            case "KV.GET" -> versioned(get(handle, request), request);
            case "SET" -> {
                handle.put(put(request, row(request).put(column(0), request.arg(2))));
                yield new Reply().ok();
            }
            case "KV.PUT" -> putIf(handle, request);
            case "DEL" -> {
                DeleteRequest delete = new DeleteRequest().setTableName(table).setKey(key(request));
                if (store.durability != null) {
                    delete.setDurability(store.durability);
                }
                yield new Reply().integer(handle.delete(delete).getSuccess() ? 1 : 0);
            }
            case "KV.RANGE" -> scan(handle, request);
            default -> throw request.unknown();
        };
    }

    private static MapValue key(Request request) throws IOException {
        return new MapValue().put("k", request.text(1));
    }

    private static MapValue row(Request request) throws IOException {
        return key(request);
    }

    private GetResult get(NoSQLHandle handle, Request request) throws IOException {
        boolean leader = request.access == Request.Access.LEADER_READ;
        return handle.get(
                new GetRequest().setTableName(table).setKey(key(request)).setConsistency(store.consistency(leader)));
    }

    private PutRequest put(Request request, MapValue row) {
        PutRequest put = new PutRequest().setTableName(table).setValue(row);
        return store.durability == null ? put : put.setDurability(store.durability);
    }

    private static Reply bulk(Reply reply, FieldValue value) {
        return value == null || value.isAnyNull() ? reply.nothing() : reply.bulk(value.getBinary());
    }

    private Reply all(MapValue row) {
        if (row == null) {
            return new Reply().array(0);
        }
        Reply pairs = new Reply();
        int count = 0;
        for (int field = 0; field < shape.fields().size(); field++) {
            FieldValue value = row.get(column(field));
            if (value != null && !value.isAnyNull()) {
                pairs.bulk(shape.fields().get(field)).bulk(value.getBinary());
                count++;
            }
        }
        return new Reply().array(2 * count).append(pairs);
    }

    private Reply some(MapValue row, Request request) throws IOException {
        Reply reply = new Reply().array(request.count() - 2);
        for (int i = 2; i < request.count(); i++) {
            int field = shape.placeOf(request.arg(i));
            bulk(reply, row == null ? null : row.get(column(field)));
        }
        return reply;
    }

    private Reply set(NoSQLHandle handle, Request request) throws IOException {
        int pairs = (request.count() - 2) / 2;
        if (pairs == shape.fields().size()) {
            MapValue row = row(request);
            for (int i = 0; i < pairs; i++) {
                row.put(column(shape.placeOf(request.arg(2 + 2 * i))), request.arg(3 + 2 * i));
            }
            handle.put(put(request, row));
            return new Reply().integer(pairs);
        }
        if (pairs != 1) {
            throw request.unknown();
        }
        // A put would replace the whole row.
        int field = shape.placeOf(request.arg(2));
        String text = "DECLARE $v BINARY; $k STRING; UPDATE " + table + " t SET t." + column(field) + " = $v WHERE k = $k";
        PreparedStatement update = prepared(handle, text);
        update.setVariable("$v", new BinaryValue(request.arg(3)));
        update.setVariable("$k", new StringValue(request.text(1)));
        long updated = 0;
        try (QueryRequest query = new QueryRequest().setPreparedStatement(update)) {
            if (store.durability != null) {
                query.setDurability(store.durability);
            }
            for (MapValue row : rows(handle, query)) {
                updated += row.get("NumRowsUpdated").getLong();
            }
        }
        // None if there is no such record: an UPDATE makes none.
        return new Reply().integer(updated);
    }

    /** A copy of a statement, to be given its variables. */
    private PreparedStatement prepared(NoSQLHandle handle, String text) {
        PreparedStatement known = prepared.get(text);
        if (known == null) {
            known = handle.prepare(new PrepareRequest().setStatement(text)).getPreparedStatement();
            prepared.put(text, known);
        }
        return known.copyStatement();
    }

    private static List<MapValue> rows(NoSQLHandle handle, QueryRequest query) {
        List<MapValue> rows = new ArrayList<>();
        do {
            rows.addAll(handle.query(query).getResults());
        } while (!query.isDone());
        return rows;
    }

    private static Reply value(GetResult found) {
        return found.getValue() == null ? new Reply().nothing() : bulk(new Reply(), found.getValue().get(column(0)));
    }

    private Reply versioned(GetResult found, Request request) {
        if (found.getValue() == null) {
            return new Reply().nothing();
        }
        // Its versions are no numbers; the write of this token compares what was read here.
        read.put(request.token, found.getVersion());
        return bulk(new Reply().array(2), found.getValue().get(column(0))).integer(number(found.getVersion()));
    }

    /** A number for a version, which another version of the record does not have: 63 bits of a hash of its bytes (FNV-1a). */
    static long number(Version version) {
        long hash = 0xcbf29ce484222325L;
        for (byte part : version.getBytes()) {
            hash = (hash ^ (part & 0xff)) * 0x100000001b3L;
        }
        return hash & Long.MAX_VALUE;
    }

    private Reply putIf(NoSQLHandle handle, Request request) throws IOException {
        Version version = read.get(request.token);
        if (version == null || number(version) != request.number(4)) {
            throw Request.damaged();
        }
        PutRequest put = put(request, row(request).put(column(0), request.arg(2)));
        PutResult done = handle.put(put.setOption(PutRequest.Option.IfVersion).setMatchVersion(version));
        return done.getVersion() == null ? new Reply().nothing() : new Reply().integer(1);
    }

    private Reply scan(NoSQLHandle handle, Request request) throws IOException {
        String order = request.isAfter() ? ">" : ">=";
        String text = "DECLARE $k STRING; $n INTEGER; SELECT * FROM " + table + " WHERE k " + order + " $k ORDER BY k LIMIT $n";
        PreparedStatement select = prepared(handle, text);
        select.setVariable("$k", new StringValue(new String(request.boundKey(), StandardCharsets.UTF_8)));
        select.setVariable("$n", new IntegerValue(request.limit()));
        List<MapValue> rows;
        try (QueryRequest query = new QueryRequest().setPreparedStatement(select)) {
            rows = rows(handle, query.setConsistency(store.consistency(false)));
        }
        // All at once, so there is nowhere to go on.
        Reply reply = new Reply().array(2).nothing().array(rows.size());
        for (MapValue row : rows) {
            reply.array(2).bulk(row.get("k").getString());
            if (shape.hash()) {
                reply.append(all(row));
            } else {
                bulk(reply, row.get(column(0)));
            }
        }
        return reply;
    }

    /** What the SDK's exceptions say of a request. */
    static Throwable trouble(Exception failed) {
        if (failed instanceof OneAttempt.Failed once) {
            return once.trouble();
        }
        if (failed instanceof RequestTimeoutException late) {
            return late.getCause() instanceof ThrottlingException ? Trouble.busy() : Trouble.timeout();
        }
        if (failed instanceof ThrottlingException
                || failed instanceof SecurityInfoNotReadyException) {
            return Trouble.busy();
        }
        if (failed instanceof SystemException) {
            return Trouble.disconnected();
        }
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            if (cause instanceof java.net.ConnectException) {
                return Trouble.unreachable();
            }
            if (failed instanceof NoSQLException && cause instanceof IOException) {
                return Trouble.disconnected();
            }
        }
        return failed;
    }
}
