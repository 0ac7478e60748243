package basalt.adapter.voldemort;

import basalt.adapter.Blocking;
import basalt.adapter.Handler;
import basalt.adapter.Lines;
import basalt.adapter.Shape;
import basalt.adapter.Store;
import basalt.adapter.Url;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import org.w3c.dom.Element;

/**
 * A store of a Voldemort cluster.
 *
 * <p>No registry has its client library, so its documented protocol "pb0" is spoken here. The server that is asked routes
 * to the replicas, as it does for the clients of other languages than Java.
 */
public final class VoldemortStore implements Store {
    private static final int PORT = 6666;
    /** A key that no workload has. */
    private static final byte[] PROBE = "basalt bench: is it routed?".getBytes(StandardCharsets.UTF_8);

    final Nodes nodes;
    final String name;
    private final Lines facts;
    private final Blocking threads = new Blocking();

    private VoldemortStore(Nodes nodes, String name, Element settings) {
        this.nodes = nodes;
        this.name = name;
        this.facts = ask(settings);
    }

    /** Asks the first server that answers for the cluster and the store. */
    public static Store connect(Lines greeting) throws IOException {
        Url url = new Url(greeting.get("target"), PORT, Set.of("store"));
        if (!greeting.get("durability").isEmpty() || !greeting.get("acks").isEmpty()) {
            throw new IOException("the store's own settings decide about copies and disks: leave --durability and --acks out");
        }
        int timeout = greeting.number("timeout_ms", 1);
        String name = url.option("store", "usertable");
        IOException last = null;
        for (InetSocketAddress place : url.places) {
            try (Link link = new Link(place, timeout)) {
                List<Nodes.Node> nodes = Metadata.nodes(metadata(link, "cluster.xml"));
                Element settings = Metadata.store(metadata(link, "stores.xml"), name);
                requireRouting(link, name);
                return new VoldemortStore(new Nodes(nodes, timeout), name, settings);
            } catch (IOException failed) {
                last = new IOException(Url.shown(place) + ": " + failed.getMessage(), failed);
            }
        }
        throw last;
    }

    /** Asks for a key by way of the server's routing, which every request will take. A server without it hangs up. */
    private static void requireRouting(Link link, String store) throws IOException {
        try {
            Message.values(link.ask(Message.get(store, PROBE, true)));
        } catch (EOFException | SocketException hungUp) {
            throw new IOException(
                    "the server ends the connection at a routed request: set enable.server.routing=true in its"
                            + " server.properties (the default is false) and start it again",
                    hungUp);
        }
    }

    private static byte[] metadata(Link link, String key) throws IOException {
        byte[] request = Message.get("metadata", key.getBytes(StandardCharsets.UTF_8), false);
        List<Message.Versioned> found = Message.values(link.ask(request));
        if (found.size() != 1) {
            throw new IOException("the cluster has " + found.size() + " versions of " + key);
        }
        return found.get(0).value();
    }

    private Lines ask(Element settings) {
        String copies = Metadata.text(settings, "replication-factor", "unknown");
        String reads = Metadata.text(settings, "required-reads", "unknown");
        String writes = Metadata.text(settings, "required-writes", "unknown");
        Lines lines =
                new Lines()
                        .add("system", "Voldemort (version not told), protocol pb0 by this adapter, routed by the servers")
                        .add("durability", writes + " of " + copies + " servers have a write before its answer; their settings say when it is on disk")
                        .add("replication", copies + " on " + nodes.all().size() + " nodes")
                        .add("consistency", "R = " + reads + ", W = " + writes + "; vector clocks, the newest of siblings is read")
                        .add("compression", "as the store's serializers are set")
                        .add("engine", Metadata.text(settings, "persistence", "unknown"));
        nodes.all().forEach(node -> lines.add("node", Url.shown(node.place)));
        return lines;
    }

    @Override
    public Lines facts() {
        return facts;
    }

    @Override
    public Handler open(Shape shape, Lines told) throws IOException {
        if (shape.scans()) {
            throw new IOException("Voldemort has no scans");
        }
        return threads.handler(new VoldemortRecords(this, shape.fields().size()), failed -> failed);
    }

    @Override
    public void close() {
        threads.close();
        nodes.close();
    }
}
