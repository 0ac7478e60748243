package basalt.adapter;

import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** Where the answer to one request goes. */
public final class Answer {
    private static final int REPLY = 0;
    private static final int REFUSED = 1;
    private static final int UNKNOWN = 2;

    private final Answers answers;
    private final int token;

    Answer(Answers answers, int token) {
        this.answers = answers;
        this.token = token;
    }

    /** The store has answered. */
    public void reply(Reply reply) {
        answers.send(token, REPLY, reply.bytes(), reply.length());
    }

    /** The store has not: {@link Trouble}, or an error of its own, which becomes an error reply. */
    public void fail(Throwable why) {
        Throwable cause = why;
        while ((cause instanceof CompletionException || cause instanceof ExecutionException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof Trouble trouble) {
            byte[] word = trouble.getMessage().getBytes(java.nio.charset.StandardCharsets.US_ASCII);
            answers.send(token, trouble.refused ? REFUSED : UNKNOWN, word, word.length);
        } else if (cause instanceof UnsupportedOperationException && cause.getMessage() != null) {
            reply(new Reply().error(cause.getMessage()));
        } else {
            reply(new Reply().error(cause.getClass().getSimpleName() + " " + cause.getMessage()));
        }
    }
}
