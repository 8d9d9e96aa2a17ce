/*
 * A tour through the binary interface of AsyncSteps: every function of the table once, in C11.
 *
 * Each part builds a root, runs it on a loop in virtual time, and checks the notes of its steps.
 *
 *     cc -std=c11 -I include examples/c/tour.c -L target/debug -lasyncsteps_ffi -lpthread
 */
#include "asyncsteps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static AsyncStepsLoop *event_loop;

/* What happened, in the order in which it happened. */
static char notes[1024];

static void note(const char *what)
{
    if (notes[0])
    {
        strncat(notes, " ", sizeof notes - strlen(notes) - 1);
    }
    strncat(notes, what, sizeof notes - strlen(notes) - 1);
}

static void note_number(const char *what, long number)
{
    char text[64];
    snprintf(text, sizeof text, "%s=%ld", what, number);
    note(text);
}

static int failures;

static void check(const char *part, const char *expected)
{
    if (strcmp(notes, expected) != 0)
    {
        fprintf(stderr, "%s:\n  is        %s\n  should be %s\n", part, notes, expected);
        failures++;
    }
    notes[0] = 0;
}

static void unhandled(FutoInAsyncSteps *bsi, void *data, const char *code)
{
    (void)bsi;
    (void)data;
    note("unhandled");
    note(code);
}

/* Runs a root to its end and frees it. */
static void run(FutoInAsyncSteps *root)
{
    root->api->execute(root, NULL, unhandled);
    asyncsteps_loop_run(event_loop);
    root->api->free(root);
}

/* ---- Steps and arguments: add, success, handle_error ------------------------------------------ */

static const FutoInType int32_type = {FTN_TYPE_INT32, NULL};
static const FutoInType string_type = {FTN_TYPE_STRING, NULL};

static void free_object(FutoInBinaryValue *v)
{
    note("object freed");
    free(v->custom_data);
}

/* A custom object, which is freed by its last owner. */
static const FutoInType object_type = {FTN_TYPE_CUSTOM_OBJECT, free_object};

static void give_three(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)data;
    note_number("none", args->arg0.type == NULL);
    FutoInArgs result = {0};
    result.arg0.type = &int32_type;
    result.arg0.i32 = -7;
    result.arg1.type = &string_type;
    result.arg1.cstr = "text";
    result.arg2.type = &object_type;
    result.arg2.custom_data = malloc(16);
    bsi->api->success(bsi, &result);
    /* the step has taken the values */
    note_number("taken", result.arg2.type == NULL);
}

static void take_three(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    note((const char *)data);
    note_number("number", args->arg0.i32);
    note(args->arg1.cstr);
    note_number("object", args->arg2.type == &object_type);
    bsi->api->handle_error(bsi, "Wrong", NULL);
    bsi->api->handle_error(bsi, "OutOfStock", "no apples");
}

static void recover(FutoInAsyncSteps *bsi, void *data, const char *code)
{
    (void)data;
    note(code);
    note((const char *)bsi->api->stateVariable(bsi, NULL, "error_info", NULL, NULL));
    note(asyncsteps_last_exception(bsi));
    bsi->api->success(bsi, NULL);
}

static void steps_and_arguments(void)
{
    FutoInAsyncSteps *root = asyncsteps_root_new(event_loop);
    root->api->add(root, NULL, give_three, NULL);
    root->api->add(root, (void *)"data", take_three, recover);
    run(root);
    check("steps and arguments",
          "none=1 taken=1 data number=-7 text object=1 object freed "
          "OutOfStock no apples OutOfStock: no apples");
}

/* ---- State and memory: stateVariable, stack, rootId ------------------------------------------- */

static void *make_counter(void *data)
{
    (void)data;
    note("made");
    return calloc(1, sizeof(int));
}

static void free_counter(void *data, void *value)
{
    (void)data;
    note_number("freed", *(int *)value);
    free(value);
}

static int *counter(FutoInAsyncSteps *bsi)
{
    return bsi->api->stateVariable(bsi, NULL, "counter", make_counter, free_counter);
}

static void count(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)data;
    (void)args;
    ++*counter(bsi);
}

static void end_of_memory(void *value)
{
    note((const char *)value);
}

static void use_memory(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)args;
    *(ptrdiff_t *)data = bsi->api->rootId(bsi);
    char *first = bsi->api->stack(bsi, 8, end_of_memory);
    strcpy(first, "first");
    char *second = bsi->api->stack(bsi, 8, end_of_memory);
    strcpy(second, "second");
    note_number("aligned", ((uintptr_t)first | (uintptr_t)second) % 16 == 0);
    bsi->api->add(bsi, NULL, count, NULL);
}

static void state_and_memory(void)
{
    FutoInAsyncSteps *root = asyncsteps_root_new(event_loop);
    ptrdiff_t id = 0;
    note_number("counter", *counter(root));
    root->api->add(root, &id, use_memory, NULL);
    root->api->add(root, NULL, count, NULL);
    root->api->execute(root, NULL, unhandled);
    note_number("over", asyncsteps_is_over(root));
    asyncsteps_loop_run(event_loop);
    note_number("over", asyncsteps_is_over(root));
    note_number("same", id == root->api->rootId(root));
    root->api->free(root);
    check("state and memory", "made counter=0 over=0 aligned=1 second first over=1 same=1 freed=2");
}

/* ---- Parallel ---------------------------------------------------------------------------------- */

static void branch(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)args;
    note((const char *)data);
    if (strcmp(data, "b") == 0)
    {
        bsi->api->handle_error(bsi, "BranchFailed", NULL);
    }
}

static void cancelled(FutoInAsyncSteps *bsi, void *data)
{
    (void)bsi;
    note("cancelled");
    note((const char *)data);
}

static void wait_forever(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)args;
    bsi->api->setCancel(bsi, data, cancelled);
}

static void branches(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)data;
    (void)args;
    FutoInAsyncSteps *parallel = bsi->api->parallel(bsi, NULL, recover);
    parallel->api->add(parallel, (void *)"a", branch, NULL);
    parallel->api->add(parallel, (void *)"waiting", wait_forever, NULL);
    parallel->api->add(parallel, (void *)"b", branch, NULL);
    parallel->api->add(parallel, (void *)"never", branch, NULL);
}

static void parallel_steps(void)
{
    FutoInAsyncSteps *root = asyncsteps_root_new(event_loop);
    root->api->add(root, NULL, branches, NULL);
    run(root);
    check("parallel", "a b cancelled waiting BranchFailed  BranchFailed");
}

/* ---- Loops: loop, repeat, breakLoop, continueLoop ---------------------------------------------- */

static void inner(FutoInAsyncSteps *bsi, void *data)
{
    (void)data;
    note("inner");
    bsi->api->continueLoop(bsi, "OUTER");
}

static void outer(FutoInAsyncSteps *bsi, void *data)
{
    int *left = data;
    note_number("left", *left);
    if ((*left)-- == 0)
    {
        bsi->api->breakLoop(bsi, NULL);
        return;
    }
    bsi->api->loop(bsi, NULL, inner, NULL);
}

static void iteration(FutoInAsyncSteps *bsi, void *data, size_t i)
{
    (void)data;
    if (i == 1)
    {
        bsi->api->continueLoop(bsi, NULL);
        return;
    }
    note_number("i", (long)i);
}

static void loops(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)args;
    bsi->api->loop(bsi, data, outer, "OUTER");
    bsi->api->repeat(bsi, NULL, 3, iteration, NULL);
}

static void loop_steps(void)
{
    FutoInAsyncSteps *root = asyncsteps_root_new(event_loop);
    int left = 2;
    root->api->add(root, &left, loops, NULL);
    run(root);
    check("loops", "left=2 inner left=1 inner left=0 i=0 i=2");
}

/* ---- Waiting: waitExternal, setTimeout, setCancel, and the event loop: sched_* ----------------- */

static void complete(void *data)
{
    FutoInAsyncSteps *bsi = data;
    FutoInArgs result = {0};
    result.arg0.type = &int32_type;
    result.arg0.i32 = 42;
    bsi->api->success(bsi, &result);
}

static void never(void *data)
{
    (void)data;
    note("never");
}

static void wait_for_timer(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)data;
    (void)args;
    note_number("thread", bsi->api->is_same_thread(bsi));
    bsi->api->waitExternal(bsi);
    bsi->api->sched_deferred(bsi, 3600 * 1000, bsi, complete);
    FutoInHandle handle = bsi->api->sched_immediate(bsi, NULL, never);
    note_number("valid", bsi->api->sched_is_valid(bsi, &handle));
    bsi->api->sched_cancel(bsi, &handle);
    note_number("valid", bsi->api->sched_is_valid(bsi, &handle));
}

static void after_timer(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    note_number("got", args->arg0.i32);
    bsi->api->setCancel(bsi, data, cancelled);
    bsi->api->setTimeout(bsi, 1000);
}

static void waiting(void)
{
    FutoInAsyncSteps *root = asyncsteps_root_new(event_loop);
    root->api->add(root, NULL, wait_for_timer, NULL);
    root->api->add(root, (void *)"step", after_timer, NULL);
    run(root);
    check("waiting", "thread=1 valid=1 valid=0 got=42 cancelled step unhandled Timeout");

    root = asyncsteps_root_new(event_loop);
    root->api->add(root, (void *)"root", wait_forever, recover);
    root->api->execute(root, NULL, unhandled);
    asyncsteps_loop_iterate(event_loop);
    root->api->cancel(root);
    asyncsteps_loop_run(event_loop);
    root->api->free(root);
    check("cancel", "cancelled root");
}

/* ---- Synchronisation: addSync, with an object of the library and a custom one ------------------- */

static void section(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)args;
    note((const char *)data);
    bsi->api->waitExternal(bsi);
    bsi->api->sched_deferred(bsi, 10, bsi, complete);
}

static void after_section(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)bsi;
    (void)data;
    note_number("got", args->arg0.i32);
}

static FutoInAsyncSteps *start_section(FutoInSync *sync, const char *name)
{
    FutoInAsyncSteps *root = asyncsteps_root_new(event_loop);
    root->api->addSync(root, sync, (void *)name, section, NULL);
    root->api->add(root, NULL, after_section, NULL);
    root->api->execute(root, NULL, unhandled);
    return root;
}

/* A lock that lets every step enter and notes it. */
static void own_lock(FutoInAsyncSteps *bsi, FutoInSync *sync)
{
    (void)bsi;
    (void)sync;
    note("lock");
}

static void own_unlock(FutoInAsyncSteps *bsi, FutoInSync *sync)
{
    (void)bsi;
    (void)sync;
    note("unlock");
}

static void synchronisation(void)
{
    FutoInSync *mutex = asyncsteps_mutex_new(1, 1);
    FutoInAsyncSteps *a = start_section(mutex, "a");
    FutoInAsyncSteps *b = start_section(mutex, "b");
    FutoInAsyncSteps *c = start_section(mutex, "c");
    asyncsteps_loop_run(event_loop);
    check("mutex", "a unhandled DefenseRejected got=42 b got=42");
    a->api->free(a);
    b->api->free(b);
    c->api->free(c);
    asyncsteps_sync_free(mutex);

    FutoInSync *throttle = asyncsteps_throttle_new(event_loop, 1, 1000, 1);
    a = start_section(throttle, "a");
    b = start_section(throttle, "b");
    c = start_section(throttle, "c");
    asyncsteps_loop_run(event_loop);
    check("throttle", "a unhandled DefenseRejected got=42 b got=42");
    a->api->free(a);
    b->api->free(b);
    c->api->free(c);
    asyncsteps_sync_free(throttle);

    FutoInSync *limiter = asyncsteps_limiter_new(event_loop, 1, ASYNCSTEPS_NO_LIMIT, 1, 1000, 1);
    a = start_section(limiter, "a");
    b = start_section(limiter, "b");
    asyncsteps_loop_run(event_loop);
    check("limiter", "a got=42 b got=42");
    a->api->free(a);
    b->api->free(b);
    asyncsteps_sync_free(limiter);

    static const FutoInSyncAPI own_api = {{{own_lock, own_unlock}}};
    FutoInSync own = {&own_api};
    a = start_section(&own, "a");
    asyncsteps_loop_run(event_loop);
    a->api->free(a);
    check("own object", "lock a unlock got=42");
}

/* ---- New instances ------------------------------------------------------------------------------ */

static void launched(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)args;
    note("launched");
    /* the step that launched this flow waits for it */
    FutoInAsyncSteps *waiting_step = data;
    waiting_step->api->success(waiting_step, NULL);
    note_number("other", waiting_step->api->rootId(waiting_step) != bsi->api->rootId(bsi));
}

static void launch(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
{
    (void)args;
    FutoInAsyncSteps *instance = bsi->api->newInstance(bsi);
    *(FutoInAsyncSteps **)data = instance;
    instance->api->add(instance, bsi, launched, NULL);
    instance->api->execute(instance, NULL, NULL);
    bsi->api->waitExternal(bsi);
}

static void instances(void)
{
    FutoInAsyncSteps *root = asyncsteps_root_new(event_loop);
    FutoInAsyncSteps *instance = NULL;
    root->api->add(root, &instance, launch, NULL);
    run(root);
    instance->api->free(instance);
    check("instances", "launched other=1");
}

/* ---- Misuse is refused --------------------------------------------------------------------------- */

static void quiet(void *data, const char *line)
{
    (void)data;
    note(line);
}

static void misuse(void)
{
    asyncsteps_set_log(quiet, NULL);
    FutoInAsyncSteps *root = asyncsteps_root_new(event_loop);
    root->api->free(root);
    root->api->free(root);
    root->api->add(root, NULL, count, NULL);
    note_number("valid", root->api->isValid(root));
    note(asyncsteps_last_error());
    asyncsteps_set_log(NULL, NULL);
    check("misuse",
          "free: the step is over or the root was freed "
          "add: the step is over or the root was freed "
          "valid=0 "
          "add: the step is over or the root was freed");
}

int main(void)
{
    event_loop = asyncsteps_loop_new(ASYNCSTEPS_LOOP_VIRTUAL);
    steps_and_arguments();
    state_and_memory();
    parallel_steps();
    loop_steps();
    waiting();
    synchronisation();
    instances();
    misuse();
    if (asyncsteps_loop_free(event_loop) != 0)
    {
        failures++;
    }
    puts(failures ? "failed" : "passed");
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
