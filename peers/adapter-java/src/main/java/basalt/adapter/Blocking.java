package basalt.adapter;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;

/** Threads for libraries whose calls wait for their answers: one for each request that is under way. */
public final class Blocking implements AutoCloseable {
    private final ExecutorService threads =
            Executors.newCachedThreadPool(
                    work -> {
                        Thread thread = new Thread(work, "request");
                        thread.setDaemon(true);
                        return thread;
                    });

    /** A request whose answer is waited for. */
    @FunctionalInterface
    public interface Call {
        /** The reply; an exception is an answer too. */
        Reply call(Request request) throws Exception;
    }

    /** A handler that has each request wait on a thread of its own; {@code read} tells trouble from errors. */
    public Handler handler(Call call, java.util.function.Function<Exception, Throwable> read) {
        return (request, answer) -> {
            try {
                threads.execute(() -> run(call, request, answer, read));
            } catch (RejectedExecutionException closed) {
                throw Trouble.disconnected();
            }
        };
    }

    private static void run(
            Call call, Request request, Answer answer, java.util.function.Function<Exception, Throwable> read) {
        Reply reply;
        try {
            reply = call.call(request);
        } catch (Exception failed) {
            answer.fail(read.apply(failed));
            return;
        }
        answer.reply(reply);
    }

    @Override
    public void close() {
        threads.shutdownNow();
    }
}
