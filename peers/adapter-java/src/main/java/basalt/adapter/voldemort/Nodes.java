package basalt.adapter.voldemort;

import basalt.adapter.Trouble;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedDeque;

/** The servers of a cluster, with the connections to each that nobody uses at the moment. */
final class Nodes implements AutoCloseable {
    /** One server. */
    static final class Node {
        final int id;
        final InetSocketAddress place;
        private final ConcurrentLinkedDeque<Link> idle = new ConcurrentLinkedDeque<>();

        Node(int id, InetSocketAddress place) {
            this.id = id;
            this.place = place;
        }
    }

    /** Does something over a connection. */
    interface Use<T> {
        T with(Link link) throws IOException;
    }

    private final List<Node> nodes = new ArrayList<>();
    private final int timeoutMs;

    Nodes(List<Node> nodes, int timeoutMs) {
        this.nodes.addAll(nodes);
        this.timeoutMs = timeoutMs;
    }

    /** The server for a turn; turns go round. */
    Node of(int turn) {
        return nodes.get(Math.floorMod(turn, nodes.size()));
    }

    List<Node> all() {
        return nodes;
    }

    /** Uses a connection to a server. A connection that broke is not used again. */
    <T> T use(Node node, Use<T> use) throws IOException, Trouble {
        Link link = node.idle.pollFirst();
        if (link == null) {
            try {
                link = new Link(node.place, timeoutMs);
            } catch (IOException failed) {
                throw Trouble.unreachable();
            }
        }
        try {
            T result = use.with(link);
            node.idle.addFirst(link);
            return result;
        } catch (Message.ServerError error) {
            node.idle.addFirst(link);
            throw error;
        } catch (SocketTimeoutException late) {
            link.close();
            throw Trouble.timeout();
        } catch (IOException broken) {
            link.close();
            throw Trouble.disconnected();
        } catch (RuntimeException unexpected) {
            link.close();
            throw unexpected;
        }
    }

    @Override
    public void close() {
        for (Node node : nodes) {
            for (Link link = node.idle.poll(); link != null; link = node.idle.poll()) {
                try {
                    link.close();
                } catch (IOException gone) {
                    // It is closed all the same.
                }
            }
        }
    }
}
