package basalt.adapter;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.PipedInputStream;
import java.io.PipedOutputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The laboratory's end of an adapter that runs in this process. */
public final class Laboratory implements AutoCloseable {
    private final PipedOutputStream lifeline = new PipedOutputStream();
    private final CompletableFuture<Void> served;
    private final Path dir;
    private final SocketChannel connection;
    private final DataInputStream in;

    /** Starts an adapter and connects to it. */
    public Laboratory(Connector connector) throws IOException, InterruptedException {
        dir = Files.createTempDirectory("adapter");
        Path socket = dir.resolve("socket");
        PipedInputStream stdin = new PipedInputStream(lifeline);
        served =
                CompletableFuture.runAsync(
                        () -> {
                            try {
                                Main.serve(connector, socket, stdin);
                            } catch (IOException failed) {
                                throw new java.io.UncheckedIOException(failed);
                            }
                        });
        connection = connect(socket);
        in = new DataInputStream(Channels.newInputStream(connection));
    }

    private static SocketChannel connect(Path socket) throws IOException, InterruptedException {
        for (int attempt = 0; ; attempt++) {
            SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
            try {
                channel.connect(UnixDomainSocketAddress.of(socket));
                return channel;
            } catch (IOException notYet) {
                channel.close();
                if (attempt > 1000) {
                    throw notYet;
                }
                Thread.sleep(5);
            }
        }
    }

    /** Sends a frame's body and reads the next. */
    public byte[] say(byte[] body) throws IOException {
        connection.write(ByteBuffer.allocate(4 + body.length).putInt(body.length).put(body).flip());
        byte[] answer = new byte[in.readInt()];
        in.readFully(answer);
        return answer;
    }

    /** Sends a greeting and reads its answer. */
    public String greet(String... lines) throws IOException {
        String greeting = "protocol=1\n" + String.join("\n", lines) + "\n";
        return new String(say(greeting.getBytes(UTF_8)), UTF_8);
    }

    /** The usual greetings: a target, and records of two fields of up to 8 bytes. */
    public String open(String target, String record, String... more) throws IOException {
        String told = greet("what=hello", "target=" + target, "timeout_ms=5000", "connections=1", String.join("\n", more));
        if (told.startsWith("error")) {
            return told;
        }
        boolean compares = record.equals("string");
        return told + greet("what=open", "record=" + record, "compare_and_set=" + compares, "scans=false", "field_bytes=8",
                "field_bytes_max=8", "field=f/a", "field=f/b");
    }

    /** Sends a request that does something to the store; its answer's outcome and text. */
    public String ask(Request.Access access, String... args) throws IOException {
        return ask(7, access, args);
    }

    /** The same by the lane with that token. */
    public String ask(int token, Request.Access access, String... args) throws IOException {
        int length = 9 + Arrays.stream(args).mapToInt(arg -> 4 + arg.getBytes(UTF_8).length).sum();
        ByteBuffer body = ByteBuffer.allocate(length).putInt(token).put((byte) access.ordinal()).putInt(args.length);
        for (String arg : args) {
            byte[] bytes = arg.getBytes(UTF_8);
            body.putInt(bytes.length).put(bytes);
        }
        byte[] answer = say(body.array());
        ByteBuffer head = ByteBuffer.wrap(answer);
        if (head.getInt() != token) {
            throw new IOException("an answer to another request");
        }
        return head.get() + " " + new String(answer, 5, answer.length - 5, UTF_8).replace("\r\n", " ").trim();
    }

    /** A read. */
    public String read(String... args) throws IOException {
        return ask(Request.Access.READ, args);
    }

    /** A write that must not be done twice. */
    public String write(String... args) throws IOException {
        return ask(Request.Access.WRITE, args);
    }

    @Override
    public void close() throws Exception {
        connection.close();
        lifeline.close();
        served.get(20, TimeUnit.SECONDS);
        Files.deleteIfExists(dir.resolve("socket"));
        Files.deleteIfExists(dir);
    }
}
