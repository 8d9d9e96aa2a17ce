/*
 * Serves an interface (FTN3) over HTTP with the Executor of AsyncSteps for Rust. Its functions are
 * steps in C, or whatever can call C: shop.c and shop.py serve the same interface.
 *
 * The library has all of asyncsteps.h in it, too: mutexes for the steps are made with that.
 */
#ifndef SERVE_H
#define SERVE_H

#include "asyncsteps.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Serve_ Serve;

/* A server of `interface`, such as "example.shop:1.0", whose definition is a file in `folder`. */
Serve *serve_new(const char *folder, const char *interface);

/* Sets what a function does: a step that gets the parameters as a string with JSON in it, and gives
 * the result as one. It runs for each request, on several threads at the same time, always with
 * this `data`; `destroy` is called with it when the server and the last request are gone.
 * `on_error` and `destroy` may be NULL. A request that nobody waits for any more is cancelled. */
void serve_function(
        Serve *serve,
        const char *name,
        FutoInAsyncSteps_execute_callback step,
        FutoInAsyncSteps_error_callback on_error,
        void *data,
        void (*destroy)(void *data));

/* Serves http://127.0.0.1:port/ftn/ on threads of its own; 0 is any free port. Gives the port, or -1
 * if that cannot be: standard error tells why. */
int serve_start(Serve *serve, uint16_t port);

/* Cancels what is in flight, and frees the server. All that was given to it has been destroyed when
 * this returns. */
void serve_stop(Serve *serve);

#ifdef __cplusplus
}
#endif

#endif /* SERVE_H */
