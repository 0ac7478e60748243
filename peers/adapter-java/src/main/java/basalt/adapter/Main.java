package basalt.adapter;

import basalt.adapter.cql.CqlStore;
import basalt.adapter.oracle.OracleStore;
import basalt.adapter.voldemort.VoldemortStore;
import basalt.adapter.voltdb.VoltStore;
import java.io.IOException;
import java.io.InputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.Map;

/**
 * Speaks to a store for {@code basalt bench}, through the store's own Java library.
 *
 * <p>It listens on a Unix socket and prints "ready". It ends when its standard input does. docs/PEERS.md tells the
 * protocol.
 */
public final class Main {
    /** The stores that this program knows, by the scheme of their URLs. */
    private static final Map<String, Connector> SYSTEMS =
            Map.of(
                    "cassandra", CqlStore::connect,
                    "scylla", CqlStore::connect,
                    "ycql", CqlStore::connect,
                    "oracle-nosql", OracleStore::connect,
                    "voltdb", VoltStore::connect,
                    "voldemort", VoldemortStore::connect,
                    "noop+java", greeting -> new Noop());

    private Main() {}

    /** Serves until its standard input ends. */
    public static void main(String[] args) throws IOException {
        // Libraries tell much that nobody asked for.
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error");
        Connector connector = args.length == 4 ? SYSTEMS.get(args[1]) : null;
        if (connector == null || !args[0].equals("--system") || !args[2].equals("--socket")) {
            System.err.println("expected --system " + String.join("|", SYSTEMS.keySet()) + " --socket PATH");
            System.exit(2);
        }
        serve(connector, Path.of(args[3]), System.in);
        // Threads of a library must not keep the program alive.
        System.exit(0);
    }

    static void serve(Connector connector, Path socket, InputStream lifeline) throws IOException {
        try (ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            listener.bind(UnixDomainSocketAddress.of(socket));
            daemon("lifeline", () -> endWith(lifeline, listener));
            System.out.println("ready");
            System.out.flush();
            try (Server server = new Server(connector)) {
                while (true) {
                    SocketChannel connection = listener.accept();
                    daemon("connection", () -> server.serve(connection));
                }
            } catch (ClosedChannelException end) {
                // The lifeline has ended.
            }
        }
    }

    private static void daemon(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** The laboratory holds the other end for as long as it lives. */
    private static void endWith(InputStream lifeline, ServerSocketChannel listener) {
        try {
            lifeline.transferTo(java.io.OutputStream.nullOutputStream());
        } catch (IOException broken) {
            // It has ended too.
        }
        try {
            listener.close();
        } catch (IOException cannot) {
            System.exit(1);
        }
    }
}
