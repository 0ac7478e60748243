package basalt.adapter.voldemort;

import basalt.adapter.Blocking;
import basalt.adapter.Packed;
import basalt.adapter.Reply;
import basalt.adapter.Request;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Requests on values of a store. A hash is packed into one value, so an update of one field reads the value, changes it
 * and writes it under the clock that was read, again if another writer was faster: what Voldemort calls applyUpdate.
 */
final class VoldemortRecords implements Blocking.Call {
    /** An update that loses so many races in a row is an error. */
    private static final int RACES_MAX = 1000;

    private final VoldemortStore store;
    /** Of a whole record. */
    private final int fields;
    /** The clock that each token has read last, for its write that compares versions. */
    private final ConcurrentHashMap<Integer, Clock> read = new ConcurrentHashMap<>();

    VoldemortRecords(VoldemortStore store, int fields) {
        this.store = store;
        this.fields = fields;
    }

    @Override
    public Reply call(Request request) throws Exception {
        Nodes.Node node = store.nodes.of(request.token);
        return store.nodes.use(node, link -> answer(request, link));
    }

    private Reply answer(Request request, Link link) throws IOException {
        byte[] key = request.key();
        return switch (request.name()) {
            case "GET" -> value(get(link, key), false);
            case "KV.GET" -> {
                Message.Versioned found = get(link, key);
                if (found != null) {
                    read.put(request.token, found.clock());
                }
                yield value(found, true);
            }
            case "SET" -> {
                write(link, key, request.arg(2));
                yield new Reply().ok();
            }
            case "KV.PUT" -> {
                Clock clock = read.getOrDefault(request.token, Clock.NONE);
                boolean done = putIf(link, key, request.arg(2), clock);
                yield done ? new Reply().integer(clock.writes() + 1) : new Reply().nothing();
            }
            case "HGETALL" -> all(get(link, key));
            case "HMGET" -> some(get(link, key), request);
            case "HSET" -> set(link, request);
            case "DEL" -> {
                Clock clock = Clock.merged(Message.clocks(link.ask(Message.getVersion(store.name, key))));
                boolean removed = Message.removed(link.ask(Message.delete(store.name, key, clock)));
                yield new Reply().integer(removed ? 1 : 0);
            }
            default -> throw request.unknown();
        };
    }

    /** The newest of a key's values, under a clock that follows all of them; null if there is none. */
    private Message.Versioned get(Link link, byte[] key) throws IOException {
        List<Message.Versioned> found = Message.values(link.ask(Message.get(store.name, key, true)));
        if (found.isEmpty()) {
            return null;
        }
        Message.Versioned newest =
                found.stream().max(Comparator.comparingLong(one -> one.clock().timestamp())).orElseThrow();
        return new Message.Versioned(newest.value(), Clock.merged(found.stream().map(Message.Versioned::clock).toList()));
    }

    /** Writes whatever is there, as the published client does: its clock first. */
    private void write(Link link, byte[] key, byte[] value) throws IOException {
        for (int race = 0; race < RACES_MAX; race++) {
            Clock clock = Clock.merged(Message.clocks(link.ask(Message.getVersion(store.name, key))));
            if (putIf(link, key, value, clock)) {
                return;
            }
        }
        throw new Message.ServerError(Message.OBSOLETE, "too many races were lost");
    }

    /** Writes unless the key was written since the clock was read. */
    private boolean putIf(Link link, byte[] key, byte[] value, Clock clock) throws IOException {
        Clock asRead = clock.at(System.currentTimeMillis());
        try {
            Message.done(link.ask(Message.put(store.name, key, value, asRead)));
            return true;
        } catch (Message.ServerError error) {
            if (error.code == Message.OBSOLETE) {
                return false;
            }
            throw error;
        }
    }

    private Reply set(Link link, Request request) throws IOException {
        Map<String, byte[]> changed = new LinkedHashMap<>();
        for (int i = 2; i + 1 < request.count(); i += 2) {
            changed.put(request.text(i), request.arg(i + 1));
        }
        if (changed.size() == fields) {
            write(link, request.key(), Packed.pack(changed));
            return new Reply().integer(changed.size());
        }
        for (int race = 0; race < RACES_MAX; race++) {
            Message.Versioned found = get(link, request.key());
            Map<String, byte[]> record = found == null ? new LinkedHashMap<>() : Packed.unpack(found.value());
            record.putAll(changed);
            Clock clock = found == null ? Clock.NONE : found.clock();
            if (putIf(link, request.key(), Packed.pack(record), clock)) {
                return new Reply().integer(changed.size());
            }
        }
        throw new Message.ServerError(Message.OBSOLETE, "too many races were lost");
    }

    private static Reply value(Message.Versioned found, boolean versioned) {
        if (found == null) {
            return new Reply().nothing();
        }
        return versioned
                ? new Reply().array(2).bulk(found.value()).integer(found.clock().writes())
                : new Reply().bulk(found.value());
    }

    private static Reply all(Message.Versioned found) {
        if (found == null) {
            return new Reply().array(0);
        }
        Map<String, byte[]> fields = Packed.unpack(found.value());
        Reply reply = new Reply().array(2 * fields.size());
        fields.forEach((name, value) -> reply.bulk(name.getBytes(StandardCharsets.UTF_8)).bulk(value));
        return reply;
    }

    private static Reply some(Message.Versioned found, Request request) throws IOException {
        Map<String, byte[]> fields = found == null ? Map.of() : Packed.unpack(found.value());
        Reply reply = new Reply().array(request.count() - 2);
        for (int i = 2; i < request.count(); i++) {
            byte[] value = fields.get(request.text(i));
            if (value == null) {
                reply.nothing();
            } else {
                reply.bulk(value);
            }
        }
        return reply;
    }
}
