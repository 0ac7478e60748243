package basalt.adapter.cql;

import basalt.adapter.Answer;
import basalt.adapter.Reply;
import basalt.adapter.Request;
import basalt.adapter.Shape;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.BoundStatementBuilder;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Hashes: a row with a column for each field. */
final class HashRecords extends Records {
    private final PreparedStatement selectAll;
    private final PreparedStatement insertAll;
    /** By field. */
    private final PreparedStatement[] selectOne;
    private final PreparedStatement[] updateOne;

    HashRecords(CqlStore store, Shape shape) {
        super(store, shape);
        selectAll = prepared(Statements.select(store.keyspace, shape, shape.fields()));
        insertAll = prepared(Statements.insert(store.keyspace, shape, shape.fields()));
        selectOne = new PreparedStatement[shape.fields().size()];
        updateOne = new PreparedStatement[shape.fields().size()];
    }

    @Override
    public void handle(Request request, Answer answer) throws Exception {
        switch (request.name()) {
            case "HGETALL" -> execute(request, selectAll.bind(key(request)), answer, found -> all(found.one()));
            case "HMGET" -> some(request, answer);
            case "HSET" -> set(request, answer);
            case "DEL" -> delete(request, answer);
            case "KV.RANGE" -> scan(request, shape.fields(), answer, this::fields);
            default -> throw request.unknown();
        }
    }

    private static ByteBuffer key(Request request) throws IOException {
        return ByteBuffer.wrap(request.key());
    }

    private Reply all(Row row) {
        return row == null ? new Reply().array(0) : fields(row);
    }

    /** Names and values of the columns that have a value. */
    private Reply fields(Row row) {
        // A scan's rows have their key in front.
        int first = row.getColumnDefinitions().size() - shape.fields().size();
        Reply pairs = new Reply();
        int count = 0;
        for (int i = 0; i < shape.fields().size(); i++) {
            ByteBuffer value = row.getByteBuffer(first + i);
            if (value != null) {
                pairs.bulk(shape.fields().get(i)).bulk(value);
                count++;
            }
        }
        return new Reply().array(2 * count).append(pairs);
    }

    private void some(Request request, Answer answer) throws IOException {
        int asked = request.count() - 2;
        PreparedStatement select = selectAll;
        int[] columns = new int[asked];
        if (asked == 1) {
            int field = shape.placeOf(request.arg(2));
            if (selectOne[field] == null) {
                selectOne[field] = prepared(Statements.select(store.keyspace, shape, List.of(shape.fields().get(field))));
            }
            select = selectOne[field];
        } else {
            for (int i = 0; i < asked; i++) {
                columns[i] = shape.placeOf(request.arg(2 + i));
            }
        }
        execute(
                request,
                select.bind(key(request)),
                answer,
                found -> {
                    Row row = found.one();
                    Reply reply = new Reply().array(asked);
                    for (int column : columns) {
                        reply.bulk(row == null ? null : row.getByteBuffer(column));
                    }
                    return reply;
                });
    }

    private void set(Request request, Answer answer) throws IOException {
        int pairs = (request.count() - 2) / 2;
        PreparedStatement write;
        if (pairs == shape.fields().size()) {
            write = insertAll;
        } else if (pairs == 1) {
            int field = shape.placeOf(request.arg(2));
            if (updateOne[field] == null) {
                updateOne[field] = prepared(Statements.update(store.keyspace, shape, List.of(shape.fields().get(field))));
            }
            write = updateOne[field];
        } else {
            List<String> names = new ArrayList<>();
            for (int i = 0; i < pairs; i++) {
                names.add(shape.fields().get(shape.placeOf(request.arg(2 + 2 * i))));
            }
            write = prepared(Statements.update(store.keyspace, shape, names));
        }
        BoundStatementBuilder bound = write.boundStatementBuilder();
        for (int i = 0; i < pairs; i++) {
            // Those of insertAll come in the order of the fields; they are sent so.
            int place = pairs == shape.fields().size() ? shape.placeOf(request.arg(2 + 2 * i)) : i;
            bound.setByteBuffer(place, ByteBuffer.wrap(request.arg(3 + 2 * i)));
        }
        BoundStatement statement = bound.setByteBuffer(pairs, key(request)).build();
        execute(request, statement, answer, done -> new Reply().integer(pairs));
    }
}
