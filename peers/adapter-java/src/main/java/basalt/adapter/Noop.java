package basalt.adapter;

import java.util.Arrays;
import java.util.List;

/** Stores nothing: it shows what the way to and from an adapter costs. */
final class Noop implements Store {
    @Override
    public Lines facts() {
        Lines facts = new Lines().add("system", "no-op adapter (Java)").add("stores", "nothing");
        List.of("durability", "replication", "consistency", "compression", "engine")
                .forEach(name -> facts.add(name, "n/a"));
        return facts;
    }

    @Override
    public Handler open(Shape shape, Lines told) {
        told.add("scans", "ordered");
        byte[] value = filled(shape.fieldBytes());
        Reply record = new Reply();
        if (shape.hash()) {
            record.array(2 * shape.fields().size());
            shape.fields().forEach(name -> record.bulk(name).bulk(value));
        } else {
            record.bulk(filled(shape.fields().size() * (shape.fieldBytes() + 12)));
        }
        return (request, answer) -> answer.reply(canned(request, record, value));
    }

    private static byte[] filled(int length) {
        byte[] bytes = new byte[length];
        Arrays.fill(bytes, (byte) 'x');
        return bytes;
    }

    private static Reply canned(Request request, Reply record, byte[] value) throws java.io.IOException {
        Reply reply = new Reply();
        switch (request.name()) {
            case "HGETALL", "GET" -> reply.append(record);
            case "KV.GET" -> reply.array(2).append(record).integer(1);
            case "HMGET" -> {
                reply.array(request.count() - 2);
                for (int i = 2; i < request.count(); i++) {
                    reply.bulk(value);
                }
            }
            case "SET" -> reply.ok();
            case "HSET", "DEL", "KV.PUT" -> reply.integer(1);
            case "KV.RANGE" -> {
                int rows = request.limit();
                reply.array(2).nothing().array(rows);
                for (int row = 0; row < rows; row++) {
                    reply.array(2).bulk("user0000000000000000000").append(record);
                }
            }
            default -> throw request.unknown();
        }
        return reply;
    }

    @Override
    public void close() {}
}
