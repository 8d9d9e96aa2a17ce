/*
 * A service in C: its functions are steps, and the Executor of AsyncSteps for Rust serves them.
 *
 *     cc -std=c11 -I engine/ffi/include -I actors/transport/examples/serve \
 *         actors/transport/examples/serve/shop.c -L target/debug/examples -lserve -lpthread
 *     ./a.out actors/transport/examples/serve
 *
 * It prints its port and serves until its input ends.
 */
#define _POSIX_C_SOURCE 200809L
#include "serve.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* What is in stock; orders change it one after the other, under the lock. */
static int stock = 10;
static FutoInSync *lock;

/* The step that waits for the next order, if there is one. */
static _Atomic(FutoInAsyncSteps *) watcher;

static void say(const char *what)
{
    puts(what);
    fflush(stdout);
}

static void free_text(FutoInBinaryValue *v)
{
    free(v->custom_data);
}

static const FutoInType text_type = {FTN_TYPE_STRING, free_text};

/* Completes a step with {"name":number}. */
static void answer(FutoInAsyncSteps *bsi, const char *name, int number)
{
    char *text = malloc(64);
    snprintf(text, 64, "{\"%s\":%d}", name, number);
    FutoInArgs result = {0};
    result.arg0.type = &text_type;
    result.arg0.cstr = text;
    result.arg0.custom_data = text;
    bsi->api->success(bsi, &result);
}

/* ---- order: takes things out of stock, which a database has to write down -------------------- */

/* The database, which takes its time: a thread that knows nothing of steps but how to complete one.
 * If that was cancelled meanwhile, nobody hears of it. */
static void *database(void *data)
{
    FutoInAsyncSteps *step = data;
    step->api->success(step, NULL);
    return NULL;
}

static void write_down(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)data;
    (void)args;
    bsi->api->waitExternal(bsi);
    pthread_t thread;
    if (pthread_create(&thread, NULL, database, bsi) != 0)
    {
        bsi->api->handle_error(bsi, "InternalError", "no database");
        return;
    }
    pthread_detach(thread);
}

static void finish(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    int qty = *(int *)data;
    (void)args;
    stock -= qty;
    FutoInAsyncSteps *waiting = atomic_exchange(&watcher, NULL);
    if (waiting)
    {
        answer(waiting, "qty", qty);
    }
    answer(bsi, "left", stock);
}

/* The critical section: all of its sub-steps run under the lock. */
static void sell(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)args;
    if (*(int *)data > stock)
    {
        bsi->api->handle_error(bsi, "OutOfStock", "there are not so many");
        return;
    }
    bsi->api->add(bsi, NULL, write_down, NULL);
    bsi->api->add(bsi, data, finish, NULL);
}

static void order(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)data;
    /* it lives as long as this step and what is added to it */
    int *qty = bsi->api->stack(bsi, sizeof *qty, NULL);
    /* a real service has a library for JSON */
    if (sscanf(args->arg0.cstr, "{\"qty\":%d}", qty) != 1)
    {
        bsi->api->handle_error(bsi, "InvalidRequest", "no quantity");
        return;
    }
    bsi->api->addSync(bsi, lock, qty, sell, NULL);
}

/* ---- nextOrder: waits for an order, or for its caller to give up ------------------------------ */

static void forget(FutoInAsyncSteps *bsi, void *data)
{
    (void)bsi;
    (void)data;
    atomic_store(&watcher, NULL);
    say("cancelled");
}

static void next_order(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)data;
    (void)args;
    bsi->api->setCancel(bsi, NULL, forget); /* the step waits */
    atomic_store(&watcher, bsi);
    say("waiting");
}

int main(int argc, char **argv)
{
    (void)argc;
    lock = asyncsteps_mutex_new(1, ASYNCSTEPS_NO_LIMIT);
    Serve *serve = serve_new(argv[1], "example.shop:1.0");
    serve_function(serve, "order", order, NULL, NULL, NULL);
    serve_function(serve, "nextOrder", next_order, NULL, NULL, NULL);
    int port = serve_start(serve, 0);
    if (port < 0)
    {
        return EXIT_FAILURE;
    }
    printf("%d\n", port);
    fflush(stdout);
    while (getchar() != EOF)
    {
    }
    serve_stop(serve);
    asyncsteps_sync_free(lock);
    return EXIT_SUCCESS;
}
