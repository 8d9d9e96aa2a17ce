/*
 * Another implementation of AsyncSteps, as far as callers can see: a table of its own, handles of
 * its own, memory of its own. It has the work done by the one it is given.
 */
#include "asyncsteps.h"

#include <stdlib.h>

/* A handle: ours first, then the one that does the work. */
typedef struct
{
    const FutoInAsyncStepsAPI *api;
    FutoInAsyncSteps *inner;
} Steps;

/* Two callbacks and their data. */
typedef struct
{
    void *data;
    FutoInAsyncSteps_execute_callback execute;
    FutoInAsyncSteps_error_callback handle_error;
    FutoInAsyncSteps_cancel_callback cancel;
    void (*loop)(FutoInAsyncSteps *bsi, void *data);
    void (*repeat)(FutoInAsyncSteps *bsi, void *data, size_t i);
} Callbacks;

static const FutoInAsyncStepsAPI api;

static FutoInAsyncSteps *inner(FutoInAsyncSteps *bsi)
{
    return ((Steps *)bsi)->inner;
}

/* A handle that lives as long as the step. */
static FutoInAsyncSteps *outer(FutoInAsyncSteps *bsi)
{
    Steps *steps = bsi->api->stack(bsi, sizeof *steps, NULL);
    steps->api = &api;
    steps->inner = bsi;
    return (FutoInAsyncSteps *)steps;
}

static void *keep(FutoInAsyncSteps *bsi, Callbacks callbacks)
{
    Callbacks *kept = inner(bsi)->api->stack(inner(bsi), sizeof *kept, NULL);
    *kept = callbacks;
    return kept;
}

static void on_execute(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    Callbacks *callbacks = data;
    callbacks->execute(outer(bsi), callbacks->data, args);
}

static void on_error(FutoInAsyncSteps *bsi, void *data, const char *code)
{
    Callbacks *callbacks = data;
    callbacks->handle_error(outer(bsi), callbacks->data, code);
}

static void on_cancel(FutoInAsyncSteps *bsi, void *data)
{
    Callbacks *callbacks = data;
    callbacks->cancel(outer(bsi), callbacks->data);
}

static void on_loop(FutoInAsyncSteps *bsi, void *data)
{
    Callbacks *callbacks = data;
    callbacks->loop(outer(bsi), callbacks->data);
}

static void on_repeat(FutoInAsyncSteps *bsi, void *data, size_t i)
{
    Callbacks *callbacks = data;
    callbacks->repeat(outer(bsi), callbacks->data, i);
}

static void add(
        FutoInAsyncSteps *bsi,
        void *data,
        FutoInAsyncSteps_execute_callback f,
        FutoInAsyncSteps_error_callback eh)
{
    void *kept = keep(bsi, (Callbacks){.data = data, .execute = f, .handle_error = eh});
    inner(bsi)->api->add(inner(bsi), kept, on_execute, eh ? on_error : NULL);
}

static FutoInAsyncSteps *
parallel(FutoInAsyncSteps *bsi, void *data, FutoInAsyncSteps_error_callback eh)
{
    void *kept = keep(bsi, (Callbacks){.data = data, .handle_error = eh});
    return outer(inner(bsi)->api->parallel(inner(bsi), kept, eh ? on_error : NULL));
}

static void *state_variable(
        FutoInAsyncSteps *bsi,
        void *data,
        const char *name,
        void *(*allocate)(void *data),
        void (*cleanup)(void *data, void *value))
{
    return inner(bsi)->api->stateVariable(inner(bsi), data, name, allocate, cleanup);
}

static void *stack(FutoInAsyncSteps *bsi, size_t data_size, void (*cleanup)(void *value))
{
    return inner(bsi)->api->stack(inner(bsi), data_size, cleanup);
}

static void success(FutoInAsyncSteps *bsi, FutoInArgs *args)
{
    inner(bsi)->api->success(inner(bsi), args);
}

static void handle_error(FutoInAsyncSteps *bsi, const char *code, const char *info)
{
    inner(bsi)->api->handle_error(inner(bsi), code, info);
}

static void set_timeout(FutoInAsyncSteps *bsi, uint32_t timeout_ms)
{
    inner(bsi)->api->setTimeout(inner(bsi), timeout_ms);
}

static void set_cancel(FutoInAsyncSteps *bsi, void *data, FutoInAsyncSteps_cancel_callback ch)
{
    void *kept = keep(bsi, (Callbacks){.data = data, .cancel = ch});
    inner(bsi)->api->setCancel(inner(bsi), kept, on_cancel);
}

static void wait_external(FutoInAsyncSteps *bsi)
{
    inner(bsi)->api->waitExternal(inner(bsi));
}

static void make_loop(
        FutoInAsyncSteps *bsi,
        void *data,
        void (*f)(FutoInAsyncSteps *bsi, void *data),
        const char *label)
{
    void *kept = keep(bsi, (Callbacks){.data = data, .loop = f});
    inner(bsi)->api->loop(inner(bsi), kept, on_loop, label);
}

static void repeat(
        FutoInAsyncSteps *bsi,
        void *data,
        size_t count,
        void (*f)(FutoInAsyncSteps *bsi, void *data, size_t i),
        const char *label)
{
    void *kept = keep(bsi, (Callbacks){.data = data, .repeat = f});
    inner(bsi)->api->repeat(inner(bsi), kept, count, on_repeat, label);
}

static void break_loop(FutoInAsyncSteps *bsi, const char *label)
{
    inner(bsi)->api->breakLoop(inner(bsi), label);
}

static void continue_loop(FutoInAsyncSteps *bsi, const char *label)
{
    inner(bsi)->api->continueLoop(inner(bsi), label);
}

static void execute(
        FutoInAsyncSteps *bsi, void *data, FutoInAsyncSteps_error_callback unhandled_error)
{
    void *kept = keep(bsi, (Callbacks){.data = data, .handle_error = unhandled_error});
    inner(bsi)->api->execute(inner(bsi), kept, unhandled_error ? on_error : NULL);
}

static void cancel(FutoInAsyncSteps *bsi)
{
    inner(bsi)->api->cancel(inner(bsi));
}

static void add_sync(
        FutoInAsyncSteps *bsi,
        FutoInSync *sync,
        void *data,
        FutoInAsyncSteps_execute_callback f,
        FutoInAsyncSteps_error_callback eh)
{
    void *kept = keep(bsi, (Callbacks){.data = data, .execute = f, .handle_error = eh});
    inner(bsi)->api->addSync(inner(bsi), sync, kept, on_execute, eh ? on_error : NULL);
}

static ptrdiff_t root_id(FutoInAsyncSteps *bsi)
{
    return inner(bsi)->api->rootId(inner(bsi));
}

static int is_valid(FutoInAsyncSteps *bsi)
{
    return inner(bsi)->api->isValid(inner(bsi));
}

static FutoInAsyncSteps *new_instance(FutoInAsyncSteps *bsi)
{
    return outer(inner(bsi)->api->newInstance(inner(bsi)));
}

static void free_root(FutoInAsyncSteps *bsi)
{
    inner(bsi)->api->free(inner(bsi));
}

static FutoInHandle sched_immediate(FutoInAsyncSteps *bsi, void *data, void (*cb)(void *data))
{
    return inner(bsi)->api->sched_immediate(inner(bsi), data, cb);
}

static FutoInHandle
sched_deferred(FutoInAsyncSteps *bsi, uint32_t delay_ms, void *data, void (*cb)(void *data))
{
    return inner(bsi)->api->sched_deferred(inner(bsi), delay_ms, data, cb);
}

static void sched_cancel(FutoInAsyncSteps *bsi, FutoInHandle *handle)
{
    inner(bsi)->api->sched_cancel(inner(bsi), handle);
}

static int sched_is_valid(FutoInAsyncSteps *bsi, FutoInHandle *handle)
{
    return inner(bsi)->api->sched_is_valid(inner(bsi), handle);
}

static int is_same_thread(FutoInAsyncSteps *bsi)
{
    return inner(bsi)->api->is_same_thread(inner(bsi));
}

static const FutoInAsyncStepsAPI api = {{{
        add,
        parallel,
        state_variable,
        stack,
        success,
        handle_error,
        set_timeout,
        set_cancel,
        wait_external,
        make_loop,
        repeat,
        break_loop,
        continue_loop,
        execute,
        cancel,
        add_sync,
        root_id,
        is_valid,
        new_instance,
        free_root,
        sched_immediate,
        sched_deferred,
        sched_cancel,
        sched_is_valid,
        is_same_thread,
}}};

/* A root of this implementation, whose work is done by `root`. */
FutoInAsyncSteps *foreign_root(FutoInAsyncSteps *root)
{
    return outer(root);
}
