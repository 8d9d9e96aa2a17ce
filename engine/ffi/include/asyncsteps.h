/*
 * AsyncSteps for Rust: the universal binary interface of FutoIn AsyncSteps (FTN12 v1.14, 2.7).
 *
 * For C11 and C++11. The first three parts are the interface of the specification, 2.7.1 to 2.7.3:
 * code that is given a FutoInAsyncSteps pointer needs nothing else and need not link to anything.
 * The last part is what this library exports to make event loops, roots and synchronisation
 * objects.
 *
 * Steps: a callback gets `bsi`, adds steps to it or completes it, and returns. Then the added steps
 * run, and the step ends with the last of them. A step that neither adds nor waits (waitExternal,
 * setTimeout, setCancel) ends when its callback returns: it need not call success without values.
 *
 * Pointers: each callback may get another `bsi`. It is valid while its step is in progress; rootId
 * identifies the flow and branch. Keep the pointer itself: a copy of the structure behind it is not
 * a `bsi`. A call with a `bsi` that is not valid any more is refused. Its address is used again
 * after thousands of other steps at the earliest, so do not keep it for longer.
 *
 * Waiting: work that completes a step may be started before or after its callback says that the
 * step waits. An answer that another thread gives during the callback is kept until it returns.
 *
 * Data: each callback gets the `data` that was given with it, which has to live as long as the
 * callback may be called. Memory of `stack` does, if it is made with the `bsi` that the callback is
 * added to. Release its contents in its `cleanup`.
 *
 * Threads: success, handle_error, execute, cancel, isValid, free, stateVariable, is_same_thread and
 * the sched_ functions may be called from any thread, with a root or a step that waits; everything
 * else on the thread of the event loop. A root that was not executed yet belongs to the thread that
 * made it. A root that has ended belongs to the next thread that uses it, until another thread
 * executes or frees it. Other use is refused, see asyncsteps_last_error().
 *
 * Errors do not jump out of a callback: call handle_error and return. A C++ exception that leaves a
 * callback ends the process, and longjmp must not leave one.
 *
 * Mistakes: a call that breaks a rule fails the running callback with InternalError. A call that
 * comes too late only sets asyncsteps_last_error().
 */
#ifndef ASYNCSTEPS_H
#define ASYNCSTEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifndef __cplusplus
#include <uchar.h>
#endif

/* the specification wants unnamed structs, which C++ does not have */
#ifdef __GNUC__
#define ASYNCSTEPS_UNNAMED __extension__
#else
#define ASYNCSTEPS_UNNAMED
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 2.7.1 Binary data ---------------------------------------------------------------------- */

typedef struct FutoInBinaryValue_ FutoInBinaryValue;
typedef struct FutoInType_ FutoInType;
typedef uint8_t FutoInTypeFlags;

enum
{
    FTN_TYPE_CUSTOM_OBJECT = 0x01,
    FTN_TYPE_STRING = 0x02,
    FTN_TYPE_STRING16 = 0x03,
    FTN_TYPE_STRING32 = 0x04,
    FTN_TYPE_BOOL = 0x05,
    FTN_TYPE_INT8 = 0x06,
    FTN_TYPE_INT16 = 0x07,
    FTN_TYPE_INT32 = 0x08,
    FTN_TYPE_INT64 = 0x09,
    FTN_TYPE_UINT8 = 0x0A,
    FTN_TYPE_UINT16 = 0x0B,
    FTN_TYPE_UINT32 = 0x0C,
    FTN_TYPE_UINT64 = 0x0D,
    FTN_TYPE_FLOAT = 0x0E,
    FTN_TYPE_DOUBLE = 0x0F,
    FTN_BASE_TYPE_MASK = 0x0F,
    /* an array of a base type: `p` points to `length` elements */
    FTN_TYPE_ARRAY = 0x10,
    FTN_COMPLEX_TYPE_MASK = 0xF0
};

/*
 * The type of a value, and how the value is released; `cleanup` may be NULL. A number that is the only
 * result of a step arrives with another object of the same flags: compare those, not addresses.
 */
struct FutoInType_
{
    const FutoInTypeFlags flags;
    void (*const cleanup)(FutoInBinaryValue *v);
};

/*
 * A value; without a `type` it is no value. Strings end with NUL; `length` counts the units before
 * it, or is 0 if they were not counted.
 */
struct FutoInBinaryValue_
{
    const FutoInType *type;
    union
    {
        const void *p;
        const char *cstr;
        const char16_t *cstr16;
        const char32_t *cstr32;
        bool b;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f;
        double d;
    };
    void *custom_data;
    uint32_t length;
};

/* Releases the value and makes it no value. */
static inline void futoin_reset_binval(FutoInBinaryValue *v)
{
    if (v->type && v->type->cleanup)
    {
        v->type->cleanup(v);
    }

    v->type = NULL;
    v->u64 = 0;
    v->custom_data = NULL;
    v->length = 0;
}

/* ---- 2.7.2 AsyncSteps ------------------------------------------------------------------------ */

typedef struct FutoInAsyncStepsAPI_ FutoInAsyncStepsAPI;
typedef struct FutoInAsyncSteps_ FutoInAsyncSteps;
typedef struct FutoInSyncAPI_ FutoInSyncAPI;
typedef struct FutoInSync_ FutoInSync;
typedef struct FutoInArgs_ FutoInArgs;
typedef struct FutoInHandle_ FutoInHandle;

/* Up to four values: the result of a step, and the arguments of the next one. */
struct FutoInArgs_
{
    union
    {
        ASYNCSTEPS_UNNAMED struct
        {
            FutoInBinaryValue arg0;
            FutoInBinaryValue arg1;
            FutoInBinaryValue arg2;
            FutoInBinaryValue arg3;
        };
        FutoInBinaryValue args[4];
    };
};

/*
 * Identifies a scheduled callback; a zeroed handle identifies none. The C++ binding of FutoIn takes
 * `data2` for an object of its class AsyncTool and calls its functions cancel and is_valid, which
 * do the same as sched_cancel and sched_is_valid.
 */
struct FutoInHandle_
{
    void *data1;
    void *data2;
    ptrdiff_t data3;
};

/*
 * A step. `args` is never NULL. The values in it are released when the callback returns; to keep
 * one, copy it and make its `type` in `args` NULL. They may also be passed on as they are:
 * success(bsi, (FutoInArgs *)args).
 */
typedef void (*FutoInAsyncSteps_execute_callback)(
        FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args);
/* An error handler. It recovers with success or by adding steps, replaces the error with
 * handle_error, or just returns: then the error goes to the steps around. */
typedef void (*FutoInAsyncSteps_error_callback)(
        FutoInAsyncSteps *bsi, void *data, const char *code);
/* Called when a step ends without success. Its own errors are logged. */
typedef void (*FutoInAsyncSteps_cancel_callback)(FutoInAsyncSteps *bsi, void *data);

struct FutoInAsyncStepsAPI_
{
    union
    {
        ASYNCSTEPS_UNNAMED struct
        {
            /* 0: adds a step; `eh` may be NULL */
            void (*add)(
                    FutoInAsyncSteps *bsi,
                    void *data,
                    FutoInAsyncSteps_execute_callback f,
                    FutoInAsyncSteps_error_callback eh);
            /* 1: adds a parallel step. Steps added to the result before the callback returns are
             * its branches. Never NULL: if the call is refused, so is every use of the result */
            FutoInAsyncSteps *(*parallel)(
                    FutoInAsyncSteps *bsi, void *data, FutoInAsyncSteps_error_callback eh);
            /* 2: a state variable of the flow. The result of `allocate` is kept until the root is
             * freed, also if the root is executed again. Any thread may make and read variables
             * while the root lives; if two threads make the same one, one `cleanup` is called at
             * once.
             * Without `allocate` a missing variable is NULL, and a variable that a step in Rust has
             * set is a `const FutoInBinaryValue *`: numbers, texts and arrays as such, other types
             * as a custom object whose `p` is its address. It is read-only and valid until the next
             * look-up of the name. It is found in the callbacks of the flow and before the root is
             * executed, and on any thread if it is a shared variable in Rust. Steps in Rust find
             * variables made here by their names, too.
             * Three names are special, never NULL, and read-only. "error_info" is the information
             * of the last error as a C string, "" without one. "async_stack" is the steps in
             * progress as lines of a C string, outermost first: those in Rust with their names and
             * positions in the source, others as "a foreign step". "last_exception" is for the C++
             * binding: a std::exception_ptr that is null; asyncsteps_last_exception() is a text. */
            void *(*stateVariable)(
                    FutoInAsyncSteps *bsi,
                    void *data,
                    const char *name,
                    void *(*allocate)(void *data),
                    void (*cleanup)(void *data, void *value));
            /* 3: memory that lives as long as the step, aligned to 16; `cleanup` may be NULL */
            void *(*stack)(
                    FutoInAsyncSteps *bsi, size_t data_size, void (*cleanup)(void *value));
            /* 4: completes the step. Takes the values and makes `args` empty, also if the call is
             * refused; NULL for no values */
            void (*success)(FutoInAsyncSteps *bsi, FutoInArgs *args);
            /* 5: fails the step; in a callback, as soon as that returns. `info` may be NULL */
            void (*handle_error)(FutoInAsyncSteps *bsi, const char *code, const char *info);
            /* 6: raises the error Timeout if the step with all of its sub-steps takes longer */
            void (*setTimeout)(FutoInAsyncSteps *bsi, uint32_t timeout_ms);
            /* 7: calls `ch` if the step ends without success */
            void (*setCancel)(
                    FutoInAsyncSteps *bsi, void *data, FutoInAsyncSteps_cancel_callback ch);
            /* 8: the step waits for success or handle_error from outside */
            void (*waitExternal)(FutoInAsyncSteps *bsi);
            /* 9: adds a step that calls `f` until breakLoop. Steps that `f` adds belong to its
             * iteration. `label` may be NULL and is copied */
            void (*loop)(
                    FutoInAsyncSteps *bsi,
                    void *data,
                    void (*f)(FutoInAsyncSteps *bsi, void *data),
                    const char *label);
            /* 10: the same, `count` times, with `i` from 0 */
            void (*repeat)(
                    FutoInAsyncSteps *bsi,
                    void *data,
                    size_t count,
                    void (*f)(FutoInAsyncSteps *bsi, void *data, size_t i),
                    const char *label);
            /* 11: ends a loop, the innermost one for NULL; return after it */
            void (*breakLoop)(FutoInAsyncSteps *bsi, const char *label);
            /* 12: begins the next iteration, of the innermost loop for NULL; return after it */
            void (*continueLoop)(FutoInAsyncSteps *bsi, const char *label);
            /* 13: starts a root. `unhandled_error` may be NULL: such errors are logged then. It
             * gets the root, which has ended: to read its state, to configure and execute it
             * again, or to free it */
            void (*execute)(
                    FutoInAsyncSteps *bsi,
                    void *data,
                    FutoInAsyncSteps_error_callback unhandled_error);
            /* 14: cancels a root: cancel handlers are called, error handlers are not. On the thread
             * of the event loop it returns before they are called; in a callback of the root, no
             * step runs after that callback. On another thread it returns when the root has ended,
             * if the loop runs (on its own thread, or in asyncsteps_loop_run): then the caller can
             * release what the handlers use. So it must not hold a lock that a callback takes. It
             * does not wait for a thread that waits for this one in the same way, for loops that
             * are iterated, or for those of Executors */
            void (*cancel)(FutoInAsyncSteps *bsi);
            /* 15: adds a step that runs while it holds `sync` */
            void (*addSync)(
                    FutoInAsyncSteps *bsi,
                    FutoInSync *sync,
                    void *data,
                    FutoInAsyncSteps_execute_callback f,
                    FutoInAsyncSteps_error_callback eh);
            /* 16: the same number for all steps of one branch of one flow */
            ptrdiff_t (*rootId)(FutoInAsyncSteps *bsi);
            /* 17: for a step, whether it is in progress. For a root, whether it can be configured
             * and executed: before it is executed, and after it has ended. 0 for NULL.
             * asyncsteps_is_over() says whether a root has ended */
            int (*isValid)(FutoInAsyncSteps *bsi);
            /* 18: a new root on the same event loop; free it. Never NULL: if the call is refused,
             * so is every use of the result */
            FutoInAsyncSteps *(*newInstance)(FutoInAsyncSteps *bsi);
            /* 19: frees a root. A running one is cancelled; in a callback of its own, as soon as
             * that returns. An executed root is freed on the thread of the event loop. Another
             * thread that needs to know when cancels it before, or waits for the `cleanup` of
             * memory made with `stack` of the root */
            void (*free)(FutoInAsyncSteps *bsi);
            /* 20: calls `cb` soon on the event loop */
            FutoInHandle (*sched_immediate)(
                    FutoInAsyncSteps *bsi, void *data, void (*cb)(void *data));
            /* 21: the same after `delay_ms` */
            FutoInHandle (*sched_deferred)(
                    FutoInAsyncSteps *bsi,
                    uint32_t delay_ms,
                    void *data,
                    void (*cb)(void *data));
            /* 22: cancels a callback; does nothing if it was called */
            void (*sched_cancel)(FutoInAsyncSteps *bsi, FutoInHandle *handle);
            /* 23: whether the callback was neither called nor cancelled */
            int (*sched_is_valid)(FutoInAsyncSteps *bsi, FutoInHandle *handle);
            /* 24: whether this is the thread of the event loop */
            int (*is_same_thread)(FutoInAsyncSteps *bsi);
        };
        void *funcs[25];
    };
};

struct FutoInAsyncSteps_
{
#ifdef __cplusplus
    FutoInAsyncSteps_(const FutoInAsyncStepsAPI *table) noexcept : api(table) {}
#endif
    const FutoInAsyncStepsAPI *const api;
};

/* ---- 2.7.3 Synchronisation objects ------------------------------------------------------------ */

struct FutoInSyncAPI_
{
    union
    {
        ASYNCSTEPS_UNNAMED struct
        {
            /* 0: completes the step when it may enter: at once, by waiting, or by adding steps */
            void (*lock)(FutoInAsyncSteps *bsi, FutoInSync *sync);
            /* 1: also called for a lock that was never granted */
            void (*unlock)(FutoInAsyncSteps *bsi, FutoInSync *sync);
        };
        void *funcs[2];
    };
};

struct FutoInSync_
{
#ifdef __cplusplus
    FutoInSync_() noexcept : api(nullptr) {}
#endif
    const FutoInSyncAPI *const api;
};

#if UINTPTR_MAX == UINT64_MAX
#ifdef __cplusplus
#define ASYNCSTEPS_ASSERT(what) static_assert(what, #what)
#else
#define ASYNCSTEPS_ASSERT(what) _Static_assert(what, #what)
#endif
ASYNCSTEPS_ASSERT(sizeof(FutoInType) == 16);
ASYNCSTEPS_ASSERT(sizeof(FutoInBinaryValue) == 32);
ASYNCSTEPS_ASSERT(sizeof(FutoInArgs) == 128);
ASYNCSTEPS_ASSERT(sizeof(FutoInHandle) == 24);
ASYNCSTEPS_ASSERT(sizeof(FutoInAsyncStepsAPI) == 200);
ASYNCSTEPS_ASSERT(sizeof(FutoInSyncAPI) == 16);
ASYNCSTEPS_ASSERT(offsetof(FutoInBinaryValue, custom_data) == 16);
ASYNCSTEPS_ASSERT(offsetof(FutoInAsyncStepsAPI, execute) == 13 * sizeof(void *));
ASYNCSTEPS_ASSERT(offsetof(FutoInAsyncStepsAPI, is_same_thread) == 24 * sizeof(void *));
#undef ASYNCSTEPS_ASSERT
#endif

/* ---- What this library exports ---------------------------------------------------------------- */

/* The version of the library: 0xMMmmpp. */
uint32_t asyncsteps_version(void);

/* The mistake of the last refused call on this thread, "" if none was refused. Valid until the next
 * refused call on this thread. */
const char *asyncsteps_last_error(void);
/* Forgets the last error of this thread. */
void asyncsteps_clear_error(void);

/* Reports refused calls and unhandled errors to `log`, from any thread. NULL, the default, writes
 * them to standard error. */
void asyncsteps_set_log(void (*log)(void *data, const char *line), void *data);

/* An event loop. Callbacks of all its flows run on one thread. */
typedef struct AsyncStepsLoop_ AsyncStepsLoop;

enum
{
    /* on a thread of its own */
    ASYNCSTEPS_LOOP_THREAD = 0,
    /* on the thread that makes it, which has to call run or iterate */
    ASYNCSTEPS_LOOP_DRIVEN = 1,
    /* driven, in virtual time: it advances to the next timer as soon as there is nothing else to
     * do. For tests. */
    ASYNCSTEPS_LOOP_VIRTUAL = 2
};

/* Makes a loop; NULL if there is no such kind or no thread. */
AsyncStepsLoop *asyncsteps_loop_new(int kind);
/* Cancels the flows of the loop and frees it; a driven one on its own thread only. 0, or -1 if
 * refused. It does not free roots. Free synchronisation objects before it. */
int asyncsteps_loop_free(AsyncStepsLoop *loop);
/* Runs a driven loop until no flow and no scheduled callback is left. 0, or -1 if refused. */
int asyncsteps_loop_run(AsyncStepsLoop *loop);
/* One round of a driven loop, for use inside of another loop. Returns the milliseconds after which
 * to call it again: 0 for at once, -1 for not before it is woken, -2 if refused. */
int64_t asyncsteps_loop_iterate(AsyncStepsLoop *loop);
/* Calls `wake`, from any thread, when a driven loop that returned other than 0 is to be iterated.
 * 0, or -1 if refused. */
int asyncsteps_loop_on_wake(AsyncStepsLoop *loop, void (*wake)(void *data), void *data);

/* A root without steps. Add some, execute it, and then free it, or add others and execute it again.
 * NULL if refused. */
FutoInAsyncSteps *asyncsteps_root_new(AsyncStepsLoop *loop);

/* Whether a root was executed and has ended, or a step has ended: 1 or 0, on any thread. 1 for NULL
 * and freed roots, -1 if it is of another library. A root that is executed again is not over until
 * it ends again. */
int asyncsteps_is_over(FutoInAsyncSteps *bsi);
/* The last error of the flow as text: its code, information and causes. "" if there was none, never
 * NULL. Valid until the next call. For the thread of the event loop, and after the end. */
const char *asyncsteps_last_exception(FutoInAsyncSteps *bsi);

/* No limit on a queue. */
#define ASYNCSTEPS_NO_LIMIT UINT32_MAX

/* Synchronisation objects, for addSync and on any thread. NULL if refused: with a `max`,
 * `concurrent`, `rate` or `period_ms` of 0 no flow could enter.
 *
 * 2.3: at most `max` flows are inside, and at most `max_queue` more wait. */
FutoInSync *asyncsteps_mutex_new(uint32_t max, uint32_t max_queue);
/* 2.4: at most `max` flows enter in a period, by the time of this loop, and at most `max_queue`
 * more wait. */
FutoInSync *asyncsteps_throttle_new(
        AsyncStepsLoop *loop, uint32_t max, uint32_t period_ms, uint32_t max_queue);
/* 2.5: a mutex around a throttle; at most `burst` flows wait for the next period. */
FutoInSync *asyncsteps_limiter_new(
        AsyncStepsLoop *loop,
        uint32_t concurrent,
        uint32_t max_queue,
        uint32_t rate,
        uint32_t period_ms,
        uint32_t burst);
/* Frees one of these. 0, or -1 if refused, for example because a flow holds it or waits for it:
 * free it when they have ended. Steps that use it later fail. */
int asyncsteps_sync_free(FutoInSync *sync);

#undef ASYNCSTEPS_UNNAMED

#ifdef __cplusplus
}
#endif

#endif /* ASYNCSTEPS_H */
