package basalt.adapter.voldemort;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** A connection to one server: "pb0", "ok", then messages with their lengths in front, one at a time. */
final class Link implements AutoCloseable {
    private static final int ANSWER_BYTES_MAX = 256 << 20;

    private final Socket socket = new Socket();
    private final DataInputStream in;
    private final DataOutputStream out;

    Link(InetSocketAddress place, int timeoutMs) throws IOException {
        try {
            InetSocketAddress resolved = new InetSocketAddress(place.getHostString(), place.getPort());
            socket.connect(resolved, timeoutMs);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(timeoutMs);
            in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), 64 << 10));
            out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream(), 64 << 10));
            out.write("pb0".getBytes(StandardCharsets.US_ASCII));
            out.flush();
            byte[] answer = in.readNBytes(2);
            if (!"ok".equals(new String(answer, StandardCharsets.US_ASCII))) {
                throw new IOException("the server does not speak the protocol pb0");
            }
        } catch (IOException failed) {
            socket.close();
            throw failed;
        }
    }

    /** The answer to a request. */
    byte[] ask(byte[] request) throws IOException {
        out.writeInt(request.length);
        out.write(request);
        out.flush();
        int length = in.readInt();
        if (length < 0 || length > ANSWER_BYTES_MAX) {
            throw new IOException("the server sent an answer of " + Integer.toUnsignedString(length) + " bytes");
        }
        byte[] answer = new byte[length];
        in.readFully(answer);
        return answer;
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
