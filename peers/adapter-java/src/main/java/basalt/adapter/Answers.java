package basalt.adapter;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * Writes answers to a connection. Whoever comes while another writes leaves its answer to that one, so that many answers
 * share a write.
 */
final class Answers {
    private static final int HEAD_BYTES = 9;
    /** A buffer that has grown beyond this is not kept. */
    private static final int KEPT_BYTES = 4 << 20;

    private final SocketChannel to;
    private ByteBuffer waiting = ByteBuffer.allocate(64 << 10);
    private ByteBuffer spare = ByteBuffer.allocate(64 << 10);
    private boolean writing;
    private boolean broken;

    Answers(SocketChannel to) {
        this.to = to;
    }

    void send(int token, int outcome, byte[] body, int length) {
        synchronized (this) {
            if (broken) {
                return;
            }
            room(HEAD_BYTES + length);
            waiting.putInt(HEAD_BYTES - 4 + length).putInt(token).put((byte) outcome).put(body, 0, length);
            if (writing) {
                return;
            }
            writing = true;
        }
        write();
    }

    private void room(int more) {
        if (waiting.remaining() < more) {
            int wanted = Math.max(waiting.capacity() * 2, Math.addExact(waiting.position(), more));
            waiting = ByteBuffer.allocate(wanted).put(waiting.flip());
        }
    }

    private void write() {
        while (true) {
            ByteBuffer batch;
            synchronized (this) {
                if (waiting.position() == 0 || broken) {
                    writing = false;
                    return;
                }
                batch = waiting.flip();
                waiting = spare.capacity() > KEPT_BYTES ? ByteBuffer.allocate(64 << 10) : spare.clear();
                spare = batch;
            }
            try {
                while (batch.hasRemaining()) {
                    to.write(batch);
                }
            } catch (IOException gone) {
                // The reader of the connection notices it too.
                synchronized (this) {
                    broken = true;
                    writing = false;
                }
                return;
            }
        }
    }
}
