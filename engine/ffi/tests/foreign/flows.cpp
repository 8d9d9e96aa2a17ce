// Flows as the test suite of another project would run them: behind a wrapper that knows nothing but
// FTN12 2.7, with closures on the heap, which is how a wrapper for any language could be made.
#include "asyncsteps.h"
#include "check.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

namespace {

class Steps;

typedef std::function<void(Steps, const FutoInArgs *)> Step;
typedef std::function<void(Steps, std::string)> Handler;

// Two closures, kept by a step until it is over.
struct Closures
{
    Step step;
    Handler handler;
};

// How much of everything: a thousand, or ten under a checker that takes its time.
int scale = 1000;

// The closures that steps keep.
std::atomic<int> kept(0);

class Steps
{
public:
    FutoInAsyncSteps *bsi;

    Steps(FutoInAsyncSteps *bsi) : bsi(bsi) {}

    const FutoInAsyncStepsAPI *operator->() const
    {
        return bsi->api;
    }

    Steps add(Step step, Handler handler = nullptr)
    {
        bsi->api->add(bsi, keep(step, handler), execute, handler ? handle : nullptr);
        return *this;
    }

    Steps sync(FutoInSync *sync, Step step, Handler handler = nullptr)
    {
        bsi->api->addSync(bsi, sync, keep(step, handler), execute, handler ? handle : nullptr);
        return *this;
    }

    Steps parallel(Handler handler = nullptr)
    {
        return bsi->api->parallel(bsi, keep(nullptr, handler), handler ? handle : nullptr);
    }

    Steps loop(Step body, const char *label = nullptr)
    {
        bsi->api->loop(bsi, keep(body, nullptr), iterate, label);
        return *this;
    }

    Steps repeat(size_t count, std::function<void(Steps, size_t)> body, const char *label = nullptr)
    {
        Step step = [body](Steps as, const FutoInArgs *args) {
            body(as, static_cast<size_t>(args->arg0.u64));
        };
        bsi->api->repeat(
                bsi, keep(step, nullptr), count,
                [](FutoInAsyncSteps *bsi, void *data, size_t i) {
                    FutoInArgs args = FutoInArgs();
                    args.arg0.u64 = i;
                    static_cast<Closures *>(data)->step(bsi, &args);
                },
                label);
        return *this;
    }

    void cancelled(Step handler)
    {
        bsi->api->setCancel(bsi, keep(handler, nullptr), iterate);
    }

    void error(const char *code, const char *info = nullptr)
    {
        bsi->api->handle_error(bsi, code, info);
    }

    void success()
    {
        bsi->api->success(bsi, nullptr);
    }

    void success(int32_t number)
    {
        static const FutoInType type = {FTN_TYPE_INT32, nullptr};
        FutoInArgs args = FutoInArgs();
        args.arg0.type = &type;
        args.arg0.i32 = number;
        bsi->api->success(bsi, &args);
    }

    // Completes the step with a timer.
    void later(uint32_t ms)
    {
        bsi->api->waitExternal(bsi);
        bsi->api->sched_deferred(bsi, ms, bsi, [](void *data) { Steps(static_cast<FutoInAsyncSteps *>(data)).success(); });
    }

    std::string text(const char *name)
    {
        return static_cast<char *>(bsi->api->stateVariable(bsi, nullptr, name, nullptr, nullptr));
    }

    void run(AsyncStepsLoop *loop, Handler unhandled = nullptr)
    {
        bsi->api->execute(bsi, keep(nullptr, unhandled), unhandled ? handle : nullptr);
        asyncsteps_loop_run(loop);
    }

private:
    // In memory of the step, whose destructor frees it.
    void *keep(Step step, Handler handler)
    {
        void *memory = bsi->api->stack(bsi, sizeof(Closures), [](void *memory) {
            static_cast<Closures *>(memory)->~Closures();
            --kept;
        });
        ++kept;
        return new (memory) Closures{step, handler};
    }

    static void execute(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
    {
        static_cast<Closures *>(data)->step(bsi, args);
    }

    static void handle(FutoInAsyncSteps *bsi, void *data, const char *code)
    {
        static_cast<Closures *>(data)->handler(bsi, code);
    }

    static void iterate(FutoInAsyncSteps *bsi, void *data)
    {
        static_cast<Closures *>(data)->step(bsi, nullptr);
    }
};

// A root on a loop of its own, in virtual time.
class Flow
{
public:
    AsyncStepsLoop *loop;
    Steps root;
    std::ostringstream notes;

    Flow() : loop(asyncsteps_loop_new(ASYNCSTEPS_LOOP_VIRTUAL)), root(asyncsteps_root_new(loop)) {}

    ~Flow()
    {
        root->free(root.bsi);
        asyncsteps_loop_free(loop);
    }

    // Runs it and compares what it noted.
    void check(const char *what, const std::string &expected)
    {
        root.run(loop, [this](Steps as, const std::string &code) {
            notes << "unhandled " << code << ' ' << as.text("error_info");
        });
        is(what, notes.str(), expected);
    }
};

typedef const FutoInArgs *Args;

void errors()
{
    Flow flow;
    std::ostringstream &notes = flow.notes;
    flow.root.add(
            [&](Steps as, Args) {
                as.add([](Steps as, Args) { as.error("First", "1"); },
                       [&](Steps as, const std::string &code) {
                           notes << code << as.text("error_info") << ' ';
                           // what recovers lives as long as it runs
                           auto last = std::make_shared<std::string>("recovered ");
                           as.add([&notes](Steps as, Args) { as.later(10); });
                           as.repeat(2, [&notes](Steps, size_t i) { notes << i << ' '; });
                           as.add([&notes, last](Steps as, Args) {
                               notes << *last;
                               as.success(7);
                           });
                       });
                as.add([&](Steps as, Args args) {
                    notes << args->arg0.i32 << ' ';
                    as.error("Second", "2");
                });
            },
            [&](Steps as, const std::string &code) {
                notes << code << as.text("error_info") << ' ';
                as.error("Third");
            });
    flow.check("errors", "First1 0 1 recovered 7 Second2 unhandled Third ");
}

void nested_loops()
{
    Flow flow;
    std::ostringstream &notes = flow.notes;
    flow.root.add([&](Steps as, Args) {
        as.repeat(
                3,
                [&](Steps as, size_t i) {
                    notes << "a" << i << ' ';
                    as.loop(
                            [&, i](Steps as, Args) {
                                as.repeat(5, [&, i](Steps as, size_t j) {
                                    as.add([&, i, j](Steps as, Args) {
                                        notes << j;
                                        if (j == 1 && i == 0) {
                                            as->continueLoop(as.bsi, "A");
                                        } else if (j == 1 && i == 1) {
                                            as->breakLoop(as.bsi, "B");
                                        } else if (j == 2) {
                                            as->breakLoop(as.bsi, "A");
                                        }
                                    });
                                });
                            },
                            "B");
                    as.add([&](Steps, Args) { notes << " after B "; });
                },
                "A");
        as.add([&](Steps as, Args) {
            // out of a parallel step
            as.loop([&](Steps as, Args) {
                Steps parallel = as.parallel();
                parallel.add([&](Steps as, Args) {
                    as.cancelled([&](Steps, Args) { notes << " cancelled"; });
                });
                parallel.add([&](Steps as, Args) { as->breakLoop(as.bsi, nullptr); });
            });
        });
        as.repeat(0, [&](Steps, size_t) { notes << "never"; });
    });
    flow.check("nested loops", "a0 01a1 01 after B a2 012 cancelled");
}

void parallel_steps()
{
    Flow flow;
    std::ostringstream &notes = flow.notes;
    flow.root.add([&](Steps as, Args) {
        Steps parallel = as.parallel([&](Steps as, const std::string &code) {
            notes << code << ' ';
            as.success();
        });
        for (int i = 0; i < 3; ++i) {
            parallel.add([&, i](Steps as, Args) {
                as.cancelled([&, i](Steps, Args) { notes << "cancelled" << i << ' '; });
                as.add([&, i](Steps as, Args) { as.later(10 * (3 - i)); });
                as.add([&, i](Steps as, Args) {
                    notes << "done" << i << ' ';
                    if (i == 1) {
                        as.error("Failed");
                    }
                });
            });
        }
    });
    flow.check("parallel", "done2 done1 cancelled1 cancelled0 Failed ");

    Flow cancelled;
    Steps parallel = cancelled.root.parallel();
    for (int i = 0; i < 3; ++i) {
        parallel.add([&, i](Steps as, Args) {
            as.cancelled([&, i](Steps, Args) { cancelled.notes << i; });
        });
    }
    cancelled.root.add([](Steps, Args) { is("after a cancel", 1, 0); });
    cancelled.root->execute(cancelled.root.bsi, nullptr, nullptr);
    asyncsteps_loop_iterate(cancelled.loop);
    is("over", asyncsteps_is_over(cancelled.root.bsi), 0);
    cancelled.root->cancel(cancelled.root.bsi);
    asyncsteps_loop_run(cancelled.loop);
    is("cancelled", cancelled.notes.str(), "012");
    is("over", asyncsteps_is_over(cancelled.root.bsi), 1);
}

// A lock of another technology: it is asked on the flow's thread and may add steps.
struct Turnstile
{
    FutoInSync base;
    std::ostringstream &notes;

    static void lock(FutoInAsyncSteps *bsi, FutoInSync *sync)
    {
        std::ostringstream &notes = reinterpret_cast<Turnstile *>(sync)->notes;
        Steps(bsi).add([](Steps as, Args) { as.later(10); });
        Steps(bsi).add([&notes](Steps, Args) { notes << "locked "; });
    }

    static void unlock(FutoInAsyncSteps *bsi, FutoInSync *sync)
    {
        is("of a flow", bsi->api->rootId(bsi) != 0, true);
        reinterpret_cast<Turnstile *>(sync)->notes << "unlocked ";
    }
};

void synchronisation()
{
    static const FutoInSyncAPI table = {{{Turnstile::lock, Turnstile::unlock}}};
    Flow flow;
    std::ostringstream &notes = flow.notes;
    // the header lets C++ make only empty ones
    struct
    {
        const FutoInSyncAPI *api;
        std::ostringstream &notes;
    } turnstile = {&table, notes};
    FutoInSync *sync = reinterpret_cast<FutoInSync *>(&turnstile);
    FutoInSync *mutex = asyncsteps_mutex_new(1, 0);
    flow.root.add([](Steps as, Args) { as.success(5); });
    flow.root.sync(sync, [&](Steps as, Args args) {
        notes << "in" << args->arg0.i32 << ' ';
        // the same flow enters twice
        as.sync(mutex, [&, mutex](Steps as, Args) {
            as.sync(mutex, [&](Steps as, Args) { as.success(6); });
        });
    });
    flow.root.add([&](Steps as, Args args) {
        notes << "out" << args->arg0.i32 << ' ';
        as.sync(
                sync, [](Steps as, Args) { as.error("Inside"); },
                [&](Steps, const std::string &code) { notes << code << ' '; });
    });
    flow.check("synchronisation",
               "locked in5 unlocked out6 locked Inside unlocked unhandled Inside ");
    is("the mutex is free", asyncsteps_sync_free(mutex), 0);
}

void waiting()
{
    Flow flow;
    std::ostringstream &notes = flow.notes;
    flow.root.add(
            [&](Steps as, Args) {
                as->setTimeout(as.bsi, 100);
                as.cancelled([&](Steps, Args) { notes << "outer "; });
                as.add([&](Steps as, Args) {
                      as->setTimeout(as.bsi, 10);
                      as.add([&](Steps as, Args) {
                          as.cancelled([&](Steps, Args) { notes << "inner "; });
                      });
                  },
                       [&](Steps as, const std::string &code) {
                           notes << code << as.text("error_info") << ' ';
                           as.success(1);
                       });
                as.add([&](Steps as, Args args) {
                    notes << args->arg0.i32 << ' ';
                    as->waitExternal(as.bsi);
                });
            },
            [&](Steps as, const std::string &code) {
                notes << code << ' ';
                as.success();
            });
    // completed before the callback is over
    flow.root.add([](Steps as, Args) {
        as->waitExternal(as.bsi);
        as.success(2);
    });
    flow.root.add(
            [&](Steps as, Args args) {
                notes << args->arg0.i32 << ' ';
                as->waitExternal(as.bsi);
                as.error("Failed", "here");
            },
            [&](Steps as, const std::string &code) {
                notes << code << as.text("error_info") << ' ';
                as.success();
            });
    // a callback of the loop may do what another thread may
    flow.root.add([&](Steps as, Args) {
        as.cancelled([&](Steps, Args) { notes << "cancelled "; });
        as->sched_immediate(as.bsi, flow.root.bsi, [](void *data) {
            FutoInAsyncSteps *root = static_cast<FutoInAsyncSteps *>(data);
            root->api->cancel(root);
        });
    });
    flow.check("waiting", "inner Timeout 1 outer Timeout 2 Failedhere cancelled ");

    Flow itself;
    itself.root.add([&](Steps as, Args) {
        as.cancelled([&](Steps, Args) { itself.notes << "cancelled "; });
        itself.root->cancel(itself.root.bsi);
        is("not in the middle of a callback", itself.notes.str(), "");
        as.add([&](Steps as, Args) { as.later(10); });
        as.add([&](Steps, Args) { itself.notes << "never"; });
    });
    itself.check("cancelled by itself", "cancelled ");

    // those who are rejected are not inside
    Flow rejected;
    FutoInSync *mutex = asyncsteps_mutex_new(1, 0);
    Steps parallel = rejected.root.parallel();
    parallel.sync(mutex, [](Steps as, Args) { as.later(10); });
    parallel.add(
            [&, mutex](Steps as, Args) {
                as.sync(mutex, [](Steps, Args) { is("entered", 1, 0); },
                        [](Steps, const std::string &) { is("handled inside", 1, 0); });
            },
            [&](Steps as, const std::string &code) {
                rejected.notes << code << ' ' << as.text("error_info");
                as.success();
            });
    rejected.check("rejected", "DefenseRejected Mutex queue limit");
    asyncsteps_sync_free(mutex);
}

void state()
{
    static std::atomic<int> made(0), freed(0);
    made = freed = 0;
    struct Variable
    {
        static void *make(void *data)
        {
            ++made;
            return new std::string(static_cast<const char *>(data));
        }

        static void free(void *, void *value)
        {
            ++freed;
            delete static_cast<std::string *>(value);
        }

        static std::string &get(Steps as, const char *name)
        {
            return *static_cast<std::string *>(
                    as->stateVariable(as.bsi, const_cast<char *>(name), name, make, free));
        }
    };
    {
        Flow flow;
        flow.root.add([](Steps as, Args) {
            Variable::get(as, "a") += "1";
            as.parallel().add([](Steps as, Args) {
                Variable::get(as, "a") += "2";
                Variable::get(as, "b");
            });
            as.cancelled([](Steps, Args) {});
        });
        flow.root.add(
                [](Steps as, Args) { as.error("Failed", "why"); },
                [&](Steps as, const std::string &) { flow.notes << Variable::get(as, "a") << ' '; });
        flow.check("state", "a12 unhandled Failed why");
        is("of the root", Variable::get(flow.root, "a"), "a12");
        is("after the end", asyncsteps_last_exception(flow.root.bsi), "Failed: why");
        is("made", made, 2);
        is("freed", freed, 0);
    }
    is("freed", freed, 2);
}

void sizes()
{
    const int many = 300 * scale, deep = 100 * scale, breadth = 10 * scale;
    Flow wide;
    int calls = 0;
    wide.root.add([&](Steps as, Args) {
        for (int i = 0; i < many; ++i) {
            as->add(as.bsi, &calls,
                    [](FutoInAsyncSteps *, void *data, Args) { ++*static_cast<int *>(data); }, nullptr);
        }
    });
    wide.check("wide", "");
    is("sub-steps", calls, many);

    Flow nested;
    int depth = 0;
    Step step = [&](Steps as, Args) {
        if (++depth < deep) {
            as.add(step);
        } else {
            as.error("Deep");
        }
    };
    nested.root.add(step);
    nested.check("deep", "unhandled Deep ");
    is("depth", depth, deep);

    Flow branches;
    int over = 0;
    Steps parallel = branches.root.parallel();
    for (int i = 0; i < breadth; ++i) {
        parallel.add([&](Steps as, Args) {
            as.add([](Steps as, Args) { as.later(1); });
            as.add([&](Steps, Args) { ++over; });
        });
    }
    branches.check("branches", "");
    is("branches", over, breadth);
}

// A root may be freed by whatever runs at its end.
void ends()
{
    AsyncStepsLoop *loop = asyncsteps_loop_new(ASYNCSTEPS_LOOP_VIRTUAL);
    Steps fails = asyncsteps_root_new(loop);
    fails.add([](Steps as, Args) { as.error("End", "of it"); });
    std::string end;
    fails.run(loop, [&](Steps as, const std::string &code) {
        end = code + ' ' + as.text("error_info");
        as->free(as.bsi);
    });
    is("freed in the end", end, "End of it");
    is("valid", fails->isValid(fails.bsi), 0);

    // its own last step makes the next flow, and so on
    static int left;
    left = scale;
    struct Next
    {
        static void start(Steps root)
        {
            root.add([root](Steps as, Args) {
                if (--left > 0) {
                    start(as->newInstance(as.bsi));
                }
                as.add([root](Steps, Args) { root->free(root.bsi); });
            });
            root->execute(root.bsi, nullptr, nullptr);
        }
    };
    Next::start(asyncsteps_root_new(loop));
    asyncsteps_loop_run(loop);
    is("a chain of flows", left, 0);
    asyncsteps_loop_free(loop);
}

// A copy of what a handle points to is no handle.
void copies()
{
    Flow flow;
    flow.root.add([](Steps as, Args) {
        FutoInAsyncSteps copy = *as.bsi;
        copy.api->success(&copy, nullptr);
        is("a copy", copy.api->isValid(&copy), 0);
        is("refused", asyncsteps_last_error(), "success: bsi is a copy");
        as.error("Over");
    });
    flow.check("copies", "unhandled Over ");
}

// Steps that other threads complete at once, on several loops.
void threads()
{
    const int rounds = scale / 2, count = 4;
    std::atomic<int> done(0);
    std::vector<AsyncStepsLoop *> loops;
    std::vector<FutoInAsyncSteps *> roots;
    for (int i = 0; i < count; ++i) {
        loops.push_back(asyncsteps_loop_new(ASYNCSTEPS_LOOP_THREAD));
        Steps root = asyncsteps_root_new(loops.back());
        roots.push_back(root.bsi);
        root.repeat(rounds, [&](Steps as, size_t) {
            as.add([&](Steps as, Args) {
                as->waitExternal(as.bsi);
                // it may be over before this callback is
                std::thread([as]() mutable { as.success(1); }).detach();
                as->setTimeout(as.bsi, 60 * 1000);
            });
            as.add([&](Steps, Args args) { done += args->arg0.i32; });
        });
        root->execute(root.bsi, nullptr, nullptr);
    }
    for (FutoInAsyncSteps *root : roots) {
        while (!asyncsteps_is_over(root)) {
            std::this_thread::yield();
        }
        root->api->free(root);
    }
    for (AsyncStepsLoop *loop : loops) {
        asyncsteps_loop_free(loop);
    }
    is("completed", done, rounds * count);
}

} // namespace

int main(int argc, char **)
{
    scale = argc > 1 ? 10 : scale;
    asyncsteps_set_log([](void *, const char *) {}, nullptr);
    errors();
    nested_loops();
    parallel_steps();
    synchronisation();
    waiting();
    state();
    sizes();
    ends();
    if (argc == 1) {
        // what lies around a copy is looked at, which a checker reports
        copies();
    }
    threads();
    is("closures", kept, 0);
    return result();
}
