/* Counts visits with hiredis, which knows no clusters: its port is that of a node for databases. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static redisReply *ask(redisContext *store, const char *form, ...) {
    va_list values;
    va_start(values, form);
    redisReply *reply = redisvCommand(store, form, values);
    va_end(values);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "%s: %s\n", form, reply == NULL ? store->errstr : reply->str);
        exit(1);
    }
    return reply;
}

int main(int argc, char **argv) {
    redisContext *store = redisConnect("127.0.0.1", argc > 1 ? atoi(argv[1]) : 7100);
    if (store == NULL || store->err) {
        fprintf(stderr, "%s\n", store == NULL ? "no memory" : store->errstr);
        return 1;
    }
    const char *password = getenv("BASALT_PASSWORD");
    if (password != NULL) freeReplyObject(ask(store, "AUTH %s", password));

    freeReplyObject(ask(store, "HSET %s name Ada city London", "{user:7}:session"));
    freeReplyObject(ask(store, "EXPIRE %s 3600", "{user:7}:session"));

    /* Both or neither. */
    freeReplyObject(ask(store, "MULTI"));
    freeReplyObject(ask(store, "INCR %s", "{user:7}:visits"));
    freeReplyObject(ask(store, "HSET %s last %lld", "{user:7}:session", (long long)time(NULL)));
    redisReply *both = ask(store, "EXEC");
    redisReply *name = ask(store, "HGET %s name", "{user:7}:session");
    printf("visit %lld of %s\n", both->element[0]->integer, name->str);

    freeReplyObject(both);
    freeReplyObject(name);
    redisFree(store);
    return 0;
}
