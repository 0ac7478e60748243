package basalt.adapter;

/** Does requests, many at once. */
@FunctionalInterface
public interface Handler {
    /** Answers now or later, on any thread, once. An exception is the answer too: see {@link Trouble}. */
    void handle(Request request, Answer answer) throws Exception;
}
