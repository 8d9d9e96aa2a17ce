// The rules of the binary interface beyond what the tours show: threads, stale handles, ownership,
// and misuse, which is refused or fails the step.
#include "../../examples/cpp/asyncsteps.hpp"
#include "check.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

using asyncsteps::Loop;
using asyncsteps::Mutex;
using asyncsteps::Root;
using asyncsteps::Steps;

namespace {

const FutoInAsyncStepsAPI *api(Steps steps)
{
    return steps.binary()->api;
}

// The error that ends a flow with one step, and what it is about.
template<typename F>
std::string error_of(F step)
{
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    Root root(loop);
    std::string error = "none";
    root.add(step, [&](Steps steps, const char *code) {
        // places in the sources of the library would tell nothing
        error = std::string(code) + ": " + steps.error_info();
    });
    root.execute([](Steps, const char *) {});
    loop.run();
    return error;
}

void violations()
{
    is("success twice",
       error_of([](Steps steps) {
           steps.success();
           steps.success();
       }),
       "InternalError: success was called twice");
    is("success after add",
       error_of([](Steps steps) {
           steps.add([](Steps) {});
           steps.success();
       }),
       "InternalError: success after adding sub-steps");
    is("break outside of a loop", error_of([](Steps steps) { steps.break_loop("L"); }),
       "InternalError: break_loop(\"L\") is not inside a loop with that label");
    is("a step without a function",
       error_of([](Steps steps) { api(steps)->add(steps.binary(), nullptr, nullptr, nullptr); }),
       "InternalError: add: f is NULL");
    is("no object",
       error_of([](Steps steps) { steps.sync(nullptr, [](Steps) {}); }),
       "InternalError: addSync: sync is NULL");
    is("the interface of another step",
       error_of([](Steps outer) {
           outer.add([outer](Steps) { outer.add([](Steps) {}); });
       }),
       "InternalError: add: the step is not the one that is running");
    is("success of the step around", error_of([](Steps outer) {
           outer.add([outer](Steps) { outer.success(); });
       }),
       "InternalError: success: the step neither runs nor waits");
    is("an error of the step around", error_of([](Steps outer) {
           outer.add([outer](Steps) { outer.error("Mine"); });
       }),
       "InternalError: handle_error: the step neither runs nor waits");
    is("success of a parallel step", error_of([](Steps steps) {
           Steps parallel = steps.parallel();
           parallel.add([parallel](Steps) { parallel.success(); });
       }),
       "InternalError: success: the step neither runs nor waits");
    is("the interface of a step that is over",
       error_of([](Steps steps) {
           auto kept = std::make_shared<Steps>(nullptr);
           steps.add([kept](Steps first) { *kept = first; });
           steps.add([kept](Steps) { kept->add([](Steps) {}); });
       }),
       "InternalError: stack: the step is over or the root was freed");
    is("a branch after the start",
       error_of([](Steps steps) {
           Steps parallel = steps.parallel();
           parallel.add([parallel](Steps) { parallel.add([](Steps) {}); });
       }),
       "InternalError: add: a parallel step takes no branches after its start");
    is("the result of a branch",
       error_of([](Steps steps) { steps.parallel().add([](Steps branch) { branch.success(1); }); }),
       "InternalError: success with arguments in the step of a parallel branch");
    is("no code", error_of([](Steps steps) {
           api(steps)->handle_error(steps.binary(), nullptr, nullptr);
       }),
       "InternalError: no error code");
    is("the last error wins", error_of([](Steps steps) {
           steps.error("First", "1");
           steps.error("Second", "2");
       }),
       "Second: 2");
}

// ---- Values ---------------------------------------------------------------------------------------

int released = 0;

void release(FutoInBinaryValue *v)
{
    ++released;
    delete static_cast<int *>(v->custom_data);
}

const FutoInType object = {FTN_TYPE_CUSTOM_OBJECT, release};
const FutoInType unknown = {0x80, release};

FutoInArgs objects(const FutoInType *second)
{
    FutoInArgs args = FutoInArgs();
    args.arg0.type = &object;
    args.arg0.custom_data = new int(1);
    args.arg2.type = second;
    args.arg2.custom_data = new int(2);
    return args;
}

void values()
{
    is("unknown flags", error_of([](Steps steps) {
           FutoInArgs args = objects(&unknown);
           api(steps)->success(steps.binary(), &args);
           is("taken", args.arg0.type == nullptr && args.arg2.type == nullptr, true);
       }),
       "InternalError: a value with the unknown flags 0x80");
    is("released", released, 2);

    released = 0;
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    {
        Root root(loop);
        Steps over(nullptr);
        FutoInBinaryValue kept = FutoInBinaryValue();
        root.add([&](Steps steps) {
            over = steps;
            FutoInArgs args = objects(&object);
            api(steps)->success(steps.binary(), &args);
        });
        // a step may keep a value, and pass on the others
        struct Keep
        {
            static void step(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
            {
                FutoInArgs *mine = const_cast<FutoInArgs *>(args);
                *static_cast<FutoInBinaryValue *>(data) = mine->arg0;
                mine->arg0.type = nullptr;
                bsi->api->success(bsi, mine);
            }

            static void last(FutoInAsyncSteps *, void *, const FutoInArgs *args)
            {
                is("a hole", args->arg0.type == nullptr, true);
                is("passed on", args->arg2.type == &object, true);
            }
        };
        api(root)->add(root.binary(), &kept, Keep::step, nullptr);
        api(root)->add(root.binary(), nullptr, Keep::last, nullptr);
        root.execute([](Steps, const char *) {});
        loop.run();
        is("released by the engine", released, 1);
        futoin_reset_binval(&kept);
        is("released by its keeper", released, 2);
        // what is given to a step that is over is released too
        FutoInArgs late = objects(&object);
        api(over)->success(over.binary(), &late);
        is("released too late", released, 4);
        is("and said so", asyncsteps_last_error(), "success: the step is over or the root was freed");
    }
}

// ---- Answers from outside -------------------------------------------------------------------------------

// Answers that come too late meet no other step, however many there were in between.
void late_answers()
{
    const size_t count = 4000;
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    Root root(loop);
    std::set<FutoInAsyncSteps *> all;
    size_t timeouts = 0, wrong = 0;
    auto wait = [&](Steps steps) {
        all.insert(steps.binary());
        steps.set_timeout(1);
    };
    auto expire = [&](Steps steps, const char *) {
        ++timeouts;
        steps.success();
    };
    // in one flow, and in one flow each
    root.repeat(count, [&](Steps body, size_t) { body.add(wait, expire); });
    root.execute([](Steps, const char *) {});
    loop.run();
    for (size_t i = 0; i < count; ++i) {
        Root other(loop);
        other.add(wait, expire);
        other.execute([](Steps, const char *) {});
        loop.run();
    }
    is("timeouts", timeouts, 2 * count);
    is("pointers", all.size(), 2 * count);
    Root last(loop);
    last.add([&](Steps steps) {
        steps.wait_external();
        for (FutoInAsyncSteps *late : all) {
            Steps(late).success(-1);
        }
        struct Answer
        {
            static void of(void *step)
            {
                Steps(static_cast<FutoInAsyncSteps *>(step)).success(1);
            }
        };
        steps.deferred(1, steps.binary(), Answer::of);
    });
    last.add([&](Steps, int32_t answer) { wrong += answer != 1; });
    last.execute([](Steps, const char *code) { is("no error", code, ""); });
    loop.run();
    is("wrong answers", wrong, 0);
}

// Another thread is faster than the callback that starts it.
void early_answers()
{
    // the wait that the callback comes to, and how often the flow went on, as it should
    const std::pair<void (*)(Steps), int> waits[] = {
        {[](Steps steps) { steps.wait_external(); }, 1},
        {[](Steps steps) { steps.set_timeout(1000); }, 1},
        {[](Steps steps) { steps.set_cancel([](Steps) {}); }, 1},
        {[](Steps) {}, 0},
        {[](Steps steps) { steps.error("Changed its mind"); }, 0},
    };
    for (auto &wait : waits) {
        Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
        Root root(loop);
        released = 0;
        int answered = 0;
        bool failed = false;
        root.add([&](Steps steps) {
            std::thread([&] {
                FutoInArgs args = objects(&object);
                api(steps)->success(steps.binary(), &args);
                // only the first one counts
                steps.error("TooLate");
                is("said so", asyncsteps_last_error(),
                   "handle_error: the step is over or the root was freed");
            }).join();
            wait.first(steps);
        });
        struct Count
        {
            static void step(FutoInAsyncSteps *, void *answered, const FutoInArgs *args)
            {
                *static_cast<int *>(answered) += args->arg0.type == &object;
            }
        };
        api(root)->add(root.binary(), &answered, Count::step, nullptr);
        root.execute([&](Steps, const char *) { failed = true; });
        loop.run();
        is("answered", answered, wait.second);
        is("released", released, 2);
        is("failed", failed, &wait == &waits[4]);
    }
    is("an early error", error_of([](Steps steps) {
           std::thread([steps] { steps.error("Broken", "pipe"); }).join();
           steps.wait_external();
       }),
       "Broken: pipe");
}

// ---- Memory and state -------------------------------------------------------------------------------

void memory()
{
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    std::ostringstream notes;
    struct Noted
    {
        std::ostringstream &notes;
        const char *name;

        Noted(std::ostringstream &notes, const char *name) : notes(notes), name(name) {}

        ~Noted()
        {
            notes << name << ' ';
        }
    };
    {
        Root root(loop);
        root.stack<Noted>(notes, "root");
        root.add([&](Steps steps) {
            Steps parallel = steps.parallel();
            parallel.stack<Noted>(notes, "parallel");
            parallel.add([](Steps) {});
            steps.repeat(2, [&](Steps body, size_t) { body.stack<Noted>(notes, "iteration"); });
        });
        root.add([&](Steps steps) {
            steps.wait_external();
            struct Late
            {
                Steps steps;
                std::ostringstream &notes;
            };
            // after the callback returned, while the step lives
            steps.deferred(1, &steps.stack<Late>(Late{steps, notes}), [](void *data) {
                Late &late = *static_cast<Late *>(data);
                late.steps.stack<Noted>(late.notes, "first");
                late.steps.stack<Noted>(late.notes, "second");
                late.steps.success();
            });
        });
        root.add([&](Steps) { notes << "next "; });
        root.execute([](Steps, const char *) {});
        loop.run();
        is("too much", api(root)->stack(root.binary(), SIZE_MAX, nullptr) == nullptr, true);
        is("no name", root.state<int>("a") == 0, true);
        for (const char *name : {"error_info", "last_exception"}) {
            const char *text = static_cast<const char *>(
                    api(root)->stateVariable(nullptr, nullptr, name, nullptr, nullptr));
            is("never null", text ? text : "NULL", "");
        }
        Root other(loop);
        other.state<int>("a") = 1;
        is("states are separate", root.state<int>("a"), 0);
    }
    is("memory", notes.str(), "parallel iteration iteration second first next root ");
}

void identity()
{
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    Root root(loop);
    ptrdiff_t ids[3] = {api(root)->rootId(root.binary()), 0, 0};
    Steps parallel = root.parallel();
    for (int i = 1; i <= 2; ++i) {
        parallel.add([&ids, i](Steps branch) {
            ids[i] = api(branch)->rootId(branch.binary());
            branch.add([&ids, i](Steps steps) {
                is("of one branch", api(steps)->rootId(steps.binary()), ids[i]);
            });
        });
    }
    root.execute([](Steps, const char *) {});
    loop.run();
    is("of three branches", ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], true);
}

// ---- Roots and loops ---------------------------------------------------------------------------------

// An error in a cancel handler stops nothing else, and is reported.
void cancel_handlers()
{
    struct
    {
        void (*handler)(Steps);
        const char *line;
    } const mistakes[] = {
        {[](Steps steps) { steps.error("CloseFailed", "fd 3"); }, "CloseFailed: fd 3"},
        {[](Steps steps) { steps.success(); }, "InternalError: success in a cancel handler"},
        {[](Steps steps) { steps.break_loop(); }, "the end of a loop"},
        {[](Steps steps) { api(steps)->add(steps.binary(), nullptr, nullptr, nullptr); },
         "InternalError: add: f is NULL"},
    };
    for (auto &mistake : mistakes) {
        Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
        Root root(loop);
        int around = 0;
        root.add([&](Steps steps) {
            steps.set_cancel([&](Steps) { ++around; });
            steps.add([&](Steps inner) {
                inner.set_cancel([&](Steps steps) { mistake.handler(steps); });
                root.cancel();
            });
        });
        root.execute([](Steps, const char *) {});
        asyncsteps_clear_error();
        loop.run();
        is("told", asyncsteps_last_error(), std::string("a cancel handler failed: ") + mistake.line);
        is("the step around", around, 1);
    }
}

// A root that was not executed yet may be freed on any thread.
void freed_elsewhere()
{
    for (int kind : {ASYNCSTEPS_LOOP_THREAD, ASYNCSTEPS_LOOP_VIRTUAL}) {
        Loop loop(kind);
        FutoInAsyncSteps *root = asyncsteps_root_new(loop.get());
        std::atomic<int> kept(1);
        struct Count
        {
            std::atomic<int> &kept;

            ~Count()
            {
                --kept;
            }
        };
        Steps steps(root);
        steps.stack<Count>(Count{kept});
        kept = 1;
        steps.parallel().add([](Steps) {});
        std::thread([root] { root->api->free(root); }).join();
        is("kept", kept, 0);
        is("freed elsewhere", root->api->isValid(root), 0);
        root->api->free(root);
        is("freed twice", asyncsteps_last_error(), "free: the step is over or the root was freed");
    }
}

void roots()
{
    std::string notes;
    AsyncStepsLoop *loop = asyncsteps_loop_new(ASYNCSTEPS_LOOP_VIRTUAL);
    FutoInAsyncSteps *root = asyncsteps_root_new(loop);
    Steps(root).add([&, loop, root](Steps steps) {
        steps.set_cancel([&](Steps) { notes += "cancelled "; });
        is("a loop in a loop", asyncsteps_loop_iterate(loop), -2);
        is("a loop that is needed", asyncsteps_loop_free(loop), -1);
        // the flow ends with this callback
        root->api->free(root);
        is("freed", root->api->isValid(root), 0);
    });
    root->api->execute(root, nullptr, nullptr);
    root->api->execute(root, nullptr, nullptr);
    is("executed twice", asyncsteps_last_error(), "execute: the root is executing");
    asyncsteps_loop_run(loop);

    // the end of a loop cancels its flows; their roots are freed later
    FutoInAsyncSteps *left = asyncsteps_root_new(loop);
    Steps(left).add([&](Steps steps) {
        steps.set_cancel([&](Steps) { notes += "left "; });
    });
    left->api->execute(left, nullptr, nullptr);
    asyncsteps_loop_iterate(loop);
    FutoInAsyncSteps *unexecuted = asyncsteps_root_new(loop);
    is("freed", asyncsteps_loop_free(loop), 0);
    is("freed twice", asyncsteps_loop_free(loop), -1);
    is("a flow without a loop", asyncsteps_is_over(left), 1);
    is("a root without a loop", asyncsteps_root_new(loop) == nullptr, true);
    left->api->free(left);
    left->api->free(left);
    unexecuted->api->execute(unexecuted, nullptr, nullptr);
    is("a flow without a loop", asyncsteps_is_over(unexecuted), 1);
    unexecuted->api->free(unexecuted);
    is("roots", notes, "cancelled left ");
    is("no kind", asyncsteps_loop_new(7) == nullptr, true);
}

// No step runs after the callback that cancels or frees the root.
void ends_at_once()
{
    for (bool frees : {false, true}) {
        for (bool loops : {false, true}) {
            Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
            FutoInAsyncSteps *root = asyncsteps_root_new(loop.get());
            int calls = 0, cancelled = 0;
            auto body = [&, frees, root](Steps) {
                if (++calls == 1) {
                    frees ? root->api->free(root) : root->api->cancel(root);
                }
            };
            Steps(root).add([&, loops, body](Steps steps) {
                steps.set_cancel([&](Steps) { ++cancelled; });
                if (loops) {
                    steps.repeat(300, [body](Steps steps, size_t) { body(steps); });
                } else {
                    for (int i = 0; i < 300; ++i) {
                        steps.add(body);
                    }
                }
            });
            root->api->execute(root, nullptr, nullptr);
            loop.run();
            is("callbacks", calls, 1);
            is("cancelled", cancelled, 1);
            if (!frees) {
                root->api->free(root);
            }
        }
    }
}

void objects_are_checked()
{
    is("a limit of 0", asyncsteps_mutex_new(0, 1) == nullptr, true);
    is("said so", asyncsteps_last_error(), "asyncsteps_mutex_new: with a limit of 0 no flow could enter");
    FutoInSync *mutex = asyncsteps_mutex_new(1, 0);
    is("freed", asyncsteps_sync_free(mutex), 0);
    is("freed twice", asyncsteps_sync_free(mutex), -1);
    is("no object", asyncsteps_sync_free(nullptr), -1);
    is("a step with it", error_of([mutex](Steps steps) {
           steps.sync(mutex, [](Steps) { is("entered", 1, 0); });
       }),
       "InternalError: the synchronisation object was freed");

    // one that is held or waited for is needed
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    mutex = asyncsteps_mutex_new(1, ASYNCSTEPS_NO_LIMIT);
    FutoInSync *throttle = asyncsteps_throttle_new(loop.get(), 1, 10, ASYNCSTEPS_NO_LIMIT);
    Root first(loop), second(loop);
    for (Root *root : {&first, &second}) {
        root->sync(mutex, [=](Steps steps) {
            is("needed", asyncsteps_sync_free(mutex), -1);
            steps.repeat(2, [=](Steps body, size_t) { body.sync(throttle, [](Steps) {}); });
        });
        root->execute([](Steps, const char *code) { is("no error", code, ""); });
    }
    asyncsteps_loop_iterate(loop.get());
    is("waited for", asyncsteps_sync_free(throttle), -1);
    loop.run();
    is("a limit of 0", asyncsteps_throttle_new(loop.get(), 1, 0, 0) == nullptr, true);
    is("let go", asyncsteps_sync_free(mutex) + asyncsteps_sync_free(throttle), 0);

    static const FutoInSyncAPI no_functions = {};
    struct
    {
        const FutoInSyncAPI *api;
    } broken[] = {{nullptr}, {&no_functions}};
    for (auto &object : broken) {
        is("a broken object", error_of([&](Steps steps) {
               steps.sync(reinterpret_cast<FutoInSync *>(&object), [](Steps) { is("entered", 1, 0); });
           }),
           "InternalError: a synchronisation object without its functions");
    }
}

// ---- Threads --------------------------------------------------------------------------------------------

void threads()
{
    Loop loop(ASYNCSTEPS_LOOP_THREAD);
    Root root(loop);
    std::atomic<FutoInAsyncSteps *> waiting(nullptr);
    std::string notes;
    root.add([&](Steps steps) {
        steps.wait_external();
        waiting = steps.binary();
    });
    root.add([&](Steps, const std::string &text) { notes += text; });
    root.add([&](Steps steps) {
        steps.set_cancel([&](Steps) { notes += " cancelled"; });
        waiting = steps.binary();
    });
    // a third thread executes it
    std::thread([&] { api(root)->execute(root.binary(), nullptr, nullptr); }).join();
    while (!waiting) {
        std::this_thread::yield();
    }
    Steps steps(waiting.exchange(nullptr));
    is("the thread of the loop", api(steps)->is_same_thread(steps.binary()), 0);
    api(steps)->add(steps.binary(), nullptr, nullptr, nullptr);
    steps.break_loop();
    is("another thread", asyncsteps_last_error(), "breakLoop: not on the thread of the event loop");
    // its callbacks may be scheduled from here
    std::atomic<bool> called(false);
    FutoInHandle never = steps.deferred(3600 * 1000, &called, [](void *) { std::abort(); });
    is("scheduled", api(steps)->sched_is_valid(steps.binary(), &never), 1);
    api(steps)->sched_cancel(steps.binary(), &never);
    is("scheduled", api(steps)->sched_is_valid(steps.binary(), &never), 0);
    steps.deferred(0, &called, [](void *data) { *static_cast<std::atomic<bool> *>(data) = true; });
    while (!called) {
        std::this_thread::yield();
    }
    steps.success(std::string("completed"));
    while (!waiting) {
        std::this_thread::yield();
    }
    root.cancel();
    while (!root.is_over()) {
        std::this_thread::yield();
    }
    is("threads", notes, "completed cancelled");
}

// What was configured here goes to the thread of the loop, also parallel steps.
void handed_over()
{
    Loop loop(ASYNCSTEPS_LOOP_THREAD);
    Root root(loop);
    std::atomic<int> sum(0);
    std::atomic<bool> blocked(true);
    Steps parallel = root.parallel();
    parallel.add([&, parallel](Steps) {
        sum += parallel.stack<int>(1);
        while (blocked) {
            std::this_thread::yield();
        }
    });
    parallel.add([&, parallel](Steps steps) {
        sum += parallel.stack<int>(10);
        steps.add([&](Steps) { sum += 100; });
    });
    root.execute([](Steps, const char *code) { is("no error", code, ""); });
    api(parallel)->add(parallel.binary(), nullptr, nullptr, nullptr);
    api(parallel)->loop(parallel.binary(), nullptr, [](FutoInAsyncSteps *, void *) {}, nullptr);
    is("handed over", asyncsteps_last_error(), "loop: not on the thread of the event loop");
    blocked = false;
    while (!root.is_over()) {
        std::this_thread::yield();
    }
    is("sum", sum, 111);
}

// Flows on two loops take turns with one mutex.
void two_loops()
{
    const int rounds = 200;
    Mutex mutex;
    int inside = 0, entries = 0;
    {
        Loop one(ASYNCSTEPS_LOOP_THREAD), two(ASYNCSTEPS_LOOP_THREAD);
        Root a(one), b(two);
        for (Root *root : {&a, &b}) {
            root->repeat(rounds, [&](Steps steps, size_t) {
                steps.sync(mutex.get(), [&](Steps section) {
                    is("alone", ++inside, 1);
                    ++entries;
                    section.add([&](Steps) { --inside; });
                });
            });
            root->execute([](Steps, const char *code) { is("no error", code, ""); });
        }
        while (!a.is_over() || !b.is_over()) {
            std::this_thread::yield();
        }
    }
    is("entries", entries, 2 * rounds);
}

// Roots are freed while their loop ends.
void ends()
{
    std::atomic<int> cancelled(0);
    for (int round = 0; round < 50; ++round) {
        std::unique_ptr<Loop> loop(new Loop(ASYNCSTEPS_LOOP_THREAD));
        std::unique_ptr<Root> roots[8];
        for (auto &root : roots) {
            root.reset(new Root(*loop));
            root->add([&](Steps steps) {
                steps.set_cancel([&](Steps) { ++cancelled; });
                steps.set_timeout(3600 * 1000);
            });
            root->execute([](Steps, const char *) {});
        }
        std::thread other([&] {
            for (auto &root : roots) {
                root.reset();
            }
        });
        loop.reset();
        other.join();
    }
    is("cancelled at most once", cancelled <= 50 * 8, true);
}

// A loop inside of another one: it says when it wants to be called.
void woken()
{
    Loop loop(ASYNCSTEPS_LOOP_DRIVEN);
    std::atomic<int> woken(0);
    asyncsteps_loop_on_wake(loop.get(), [](void *data) { ++*static_cast<std::atomic<int> *>(data); }, &woken);
    Root root(loop);
    root.add([](Steps steps) { steps.wait_external(); steps.set_timeout(3600 * 1000); });
    root.execute([](Steps, const char *) {});
    int64_t pause = 0;
    while (pause == 0) {
        pause = asyncsteps_loop_iterate(loop.get());
    }
    is("until the time limit", pause > 3599 * 1000 && pause <= 3600 * 1000, true);
    woken = 0;
    std::thread([&] { root.cancel(); }).join();
    is("woken", woken > 0, true);
    loop.run();
    is("cancelled", root.is_over(), true);
    is("on another thread", [&] {
        int64_t result = 0;
        std::thread([&] { result = asyncsteps_loop_iterate(loop.get()); }).join();
        return result;
    }(), -2);
}

} // namespace

int main()
{
    asyncsteps_set_log([](void *, const char *) {}, nullptr);
    violations();
    values();
    late_answers();
    early_answers();
    memory();
    identity();
    cancel_handlers();
    freed_elsewhere();
    roots();
    ends_at_once();
    objects_are_checked();
    threads();
    handed_over();
    two_loops();
    ends();
    woken();
    return result();
}
