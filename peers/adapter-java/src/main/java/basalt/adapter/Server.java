package basalt.adapter;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;

/** Holds the one store, and serves the laboratory's connections. */
final class Server implements AutoCloseable {
    private static final String PROTOCOL = "1";
    /** As vocab's ADAPTER_FRAME_BYTES_MAX on the other side. */
    private static final int FRAME_BYTES_MAX = 256 << 20;

    private final Connector connector;
    private Store store;

    Server(Connector connector) {
        this.connector = connector;
    }

    /** Answers a connection until it ends. */
    void serve(SocketChannel connection) {
        try (connection) {
            DataInputStream in =
                    new DataInputStream(new BufferedInputStream(Channels.newInputStream(connection), 256 << 10));
            Handler handler = null;
            while (handler == null) {
                Lines told = new Lines();
                try {
                    handler = greet(Lines.parse(new String(frame(in), StandardCharsets.UTF_8)), told);
                } catch (EOFException end) {
                    throw end;
                } catch (Exception | LinkageError refused) {
                    told = new Lines().add("error", describe(refused));
                }
                for (var answer = told.frame(); answer.hasRemaining(); ) {
                    connection.write(answer);
                }
            }
            requests(in, handler, new Answers(connection));
        } catch (EOFException end) {
            // The laboratory is done.
        } catch (IOException broken) {
            System.err.println("adapter: " + broken.getMessage());
        }
    }

    private static String describe(Throwable refused) {
        String text = refused.getMessage();
        return text == null || text.isBlank() ? refused.getClass().getSimpleName() : text;
    }

    private static void requests(DataInputStream in, Handler handler, Answers answers) throws IOException {
        while (true) {
            Request request = Request.parse(frame(in));
            Answer answer = new Answer(answers, request.token);
            try {
                handler.handle(request, answer);
            } catch (Exception failed) {
                answer.fail(failed);
            }
        }
    }

    private static byte[] frame(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > FRAME_BYTES_MAX) {
            throw new IOException("a frame of " + Integer.toUnsignedString(length) + " bytes");
        }
        byte[] body = new byte[length];
        in.readFully(body);
        return body;
    }

    /** Answers a greeting; a handler once requests may follow. */
    private synchronized Handler greet(Lines greeting, Lines told) throws Exception {
        if (!greeting.get("protocol").equals(PROTOCOL)) {
            throw new IOException("protocol " + greeting.get("protocol") + " is not spoken here");
        }
        told.add("protocol", PROTOCOL);
        switch (greeting.get("what")) {
            case "hello" -> {
                if (store != null) {
                    throw new IOException("a second hello");
                }
                store = connector.connect(greeting);
                told.addAll(store.facts());
                return null;
            }
            case "open" -> {
                if (store == null) {
                    throw new IOException("open comes after hello");
                }
                return store.open(Shape.of(greeting), told);
            }
            default -> throw new IOException("a greeting that is neither hello nor open");
        }
    }

    @Override
    public synchronized void close() {
        if (store != null) {
            store.close();
        }
    }
}
