// What bindings of other projects count on beyond the words of the specification: variables on any
// thread, roots that are executed again, a cancel that waits, and handles that are objects.
#include "../../examples/cpp/asyncsteps.hpp"
#include "check.hpp"

#include <atomic>
#include <exception>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

using asyncsteps::Loop;
using asyncsteps::Root;
using asyncsteps::Steps;

namespace {

const FutoInAsyncStepsAPI *api(Steps steps)
{
    return steps.binary()->api;
}

void *look_up(Steps steps, const char *name)
{
    return api(steps)->stateVariable(steps.binary(), nullptr, name, nullptr, nullptr);
}

void wait_for(Steps root)
{
    while (!asyncsteps_is_over(root.binary())) {
        std::this_thread::yield();
    }
}

// ---- State variables ----------------------------------------------------------------------------

std::atomic<int> made(0), freed(0);

int &variable(Steps steps, const char *name)
{
    return *static_cast<int *>(api(steps)->stateVariable(
            steps.binary(), &made, name,
            [](void *data) -> void * {
                ++*static_cast<std::atomic<int> *>(data);
                return new int(0);
            },
            [](void *, void *value) {
                ++freed;
                delete static_cast<int *>(value);
            }));
}

// A variable is the same one on all threads: before the flow is executed, in it, and after its end.
void variables_on_any_thread()
{
    Loop loop(ASYNCSTEPS_LOOP_THREAD);
    {
        Root root(loop);
        variable(root, "sum") = 1;
        std::thread([&] { variable(root, "of another") = 10; }).join();
        root.add([&](Steps steps) {
            variable(steps, "sum") += variable(steps, "of another");
            steps.wait_external();
            // a step that waits leads there, too
            std::thread([steps] {
                variable(steps, "sum") += 100;
                variable(steps, "late") = 1000;
                steps.success();
            }).detach();
        });
        root.add([](Steps steps) { variable(steps, "sum") += variable(steps, "late"); });
        root.execute([](Steps, const char *code) { is("no error", code, ""); });
        wait_for(root);
        is("after the end", variable(root, "sum"), 1111);
        is("not made", look_up(root, "missing") == nullptr, true);
        is("made", made, 3);
        is("freed", freed, 0);
    }
    // its root was freed on the thread of the loop
    while (freed < 3) {
        std::this_thread::yield();
    }
}

// Threads that make the same variables agree on one of each; no other is left behind.
void variables_made_at_once()
{
    const int threads = 4, names = 20;
    made = freed = 0;
    {
        Loop loop(ASYNCSTEPS_LOOP_DRIVEN);
        Root root(loop);
        std::vector<std::thread> makers;
        std::vector<int *> seen[threads];
        for (int i = 0; i < threads; ++i) {
            makers.emplace_back([&root, &seen, i] {
                for (int name = 0; name < names; ++name) {
                    seen[i].push_back(&variable(root, std::to_string(name).c_str()));
                }
            });
        }
        for (std::thread &maker : makers) {
            maker.join();
        }
        for (int i = 1; i < threads; ++i) {
            is("the same", seen[i] == seen[0], true);
        }
        is("kept", made - freed, names);
    }
    is("freed", freed, made);
}

// Names are bytes: those that are no text differ as well.
void names_of_variables()
{
    Loop loop(ASYNCSTEPS_LOOP_DRIVEN);
    Root root(loop);
    const char *const names[] = {"", "\xFF", "\xFE", "\xEF\xBF\xBD", "\xC3\xA9"};
    for (const char *name : names) {
        is("a new one", variable(root, name)++, 0);
    }
    for (const char *name : names) {
        is("kept", variable(root, name), 1);
    }
}

// ---- What a flow says about itself ----------------------------------------------------------------

std::string text(Steps steps, const char *name)
{
    return static_cast<const char *>(look_up(steps, name));
}

// A callback reads what it has just told handle_error, and so do others that it calls.
void errors_in_their_callback()
{
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    Root root(loop);
    std::string notes;
    root.add([&](Steps steps) {
        is("before", text(steps, "error_info"), "");
        steps.error("First", "one");
        is("told", text(steps, "error_info"), "one");
        is("told", asyncsteps_last_exception(steps.binary()), "First: one");
        is("of the root", text(root, "error_info"), "one");
        api(steps)->handle_error(steps.binary(), "Second", nullptr);
        is("told again", text(steps, "error_info"), "");
        is("told again", asyncsteps_last_exception(root.binary()), "Second");
    });
    root.execute([&](Steps steps, const char *code) {
        notes = code + text(steps, "error_info");
        is("at the end", asyncsteps_last_exception(steps.binary()), "Second");
    });
    loop.run();
    is("unhandled", notes, "Second");
    is("after the end", asyncsteps_last_exception(root.binary()), "Second");
    is("never null", asyncsteps_last_exception(nullptr), "");
}

// An exception_ptr that a binding to C++ reads is null, whatever happened.
void exceptions_are_null()
{
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    Root root(loop);
    int looked = 0;
    auto look = [&](Steps steps) {
        void *found = look_up(steps, "last_exception");
        std::exception_ptr copy = *static_cast<std::exception_ptr *>(found);
        is("no exception", copy == nullptr, true);
        is("no text", static_cast<const char *>(found), "");
        ++looked;
    };
    look(root);
    root.add([&](Steps steps) { look(steps); steps.error("A rather long code", "and more"); },
             [&](Steps steps, const char *) { look(steps); });
    root.execute([&](Steps steps, const char *) { look(steps); });
    loop.run();
    look(root);
    is("looked", looked, 5);
}

void steps_in_progress()
{
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    Root root(loop);
    std::string stack;
    is("before", text(root, "async_stack"), "");
    root.add([&](Steps steps) {
        steps.repeat(1, [&](Steps body, size_t) {
            body.add([&](Steps inner) { stack = text(inner, "async_stack"); });
        });
    });
    root.execute([](Steps, const char *code) { is("no error", code, ""); });
    loop.run();
    is("stack", stack, "a foreign step\na foreign step\na foreign step");
    is("after", text(root, "async_stack"), "");
}

// ---- Roots ------------------------------------------------------------------------------------------

// A root is valid while it can be configured: before it is executed, and when it has ended.
void valid_roots()
{
    for (int kind : {ASYNCSTEPS_LOOP_THREAD, ASYNCSTEPS_LOOP_VIRTUAL}) {
        Loop loop(kind);
        Root root(loop);
        auto state = [&root] {
            return 10 * api(root)->isValid(root.binary()) + asyncsteps_is_over(root.binary());
        };
        std::atomic<int> inside(-1), handled(-1);
        is("configured", state(), 10);
        root.add([&](Steps steps) {
            is("a step", api(steps)->isValid(steps.binary()), 1);
            is("a step", asyncsteps_is_over(steps.binary()), 0);
            inside = state();
            steps.error("End");
        });
        root.execute([&](Steps, const char *) { handled = state(); });
        if (kind == ASYNCSTEPS_LOOP_VIRTUAL) {
            is("executing", state(), 0);
            loop.run();
        }
        wait_for(root);
        is("inside", inside, 0);
        is("in the handler", handled, 11);
        is("ended", state(), 11);
    }
    is("no root", asyncsteps_is_over(nullptr), 1);
    const FutoInAsyncStepsAPI other = {};
    FutoInAsyncSteps foreign(&other);
    is("of another library", asyncsteps_is_over(&foreign), -1);
}

// A root that ended, also an empty one, is configured on any thread and executed again; what was
// made with it stays.
void executed_again()
{
    for (int kind : {ASYNCSTEPS_LOOP_THREAD, ASYNCSTEPS_LOOP_VIRTUAL}) {
        Loop loop(kind);
        Root root(loop);
        std::ostringstream notes;
        made = freed = 0;
        auto run = [&](const char *end) {
            std::string code;
            root.execute([&](Steps, const char *error) { code = error; });
            if (kind == ASYNCSTEPS_LOOP_VIRTUAL) {
                loop.run();
            }
            wait_for(root);
            is("the end", code, end);
        };
        run("");
        run("");
        for (int round = 0; round < 3; ++round) {
            int &memory = root.stack<int>(round);
            ptrdiff_t id = 0;
            root.add([&](Steps steps) {
                id = api(steps)->rootId(steps.binary());
                notes << ++variable(steps, "rounds") << ' ';
                steps.parallel().add([&](Steps) { notes << memory << ' '; });
            });
            root.add([](Steps steps) { steps.error("Again", "why"); });
            run("Again");
            is("still there", text(root, "error_info"), "why");
            is("its number", api(root)->rootId(root.binary()), id);
        }
        is("rounds", notes.str(), "1 0 2 1 3 2 ");
        is("one variable", made, 1);
        root.cancel();
        run("");
        if (kind == ASYNCSTEPS_LOOP_THREAD) {
            // the next thread that uses it has it
            std::thread([&] {
                root.add([](Steps steps) { steps.error("Other"); });
                run("Other");
            }).join();
        }
    }
}

// The handler of the error that ended a root may begin anew.
void begun_anew_by_its_handler()
{
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    struct Try
    {
        Loop &loop;
        int left;

        void run(FutoInAsyncSteps *root)
        {
            root->api->add(root, this, [](FutoInAsyncSteps *bsi, void *data, const FutoInArgs *) {
                if (--static_cast<Try *>(data)->left > 0) {
                    bsi->api->handle_error(bsi, "Again", nullptr);
                }
            }, nullptr);
            root->api->execute(root, this, [](FutoInAsyncSteps *root, void *data, const char *) {
                static_cast<Try *>(data)->run(root);
            });
        }
    };
    Try tries = {loop, 1000};
    FutoInAsyncSteps *root = asyncsteps_root_new(loop.get());
    tries.run(root);
    root->api->execute(root, nullptr, nullptr);
    is("while it runs", asyncsteps_last_error(), "execute: the root is executing");
    loop.run();
    is("left", tries.left, 0);
    is("over", asyncsteps_is_over(root), 1);
    // what was added in the end and not executed goes with the root
    Steps(root).add([](Steps) { is("executed", 1, 0); });
    root->api->free(root);
}

// On another thread cancel returns when the cancel handlers have run: what they use may go.
void cancelled_from_elsewhere()
{
    for (int kind : {ASYNCSTEPS_LOOP_THREAD, ASYNCSTEPS_LOOP_DRIVEN}) {
        for (int round = 0; round < 20; ++round) {
            Loop loop(kind);
            Root root(loop);
            std::unique_ptr<int> used(new int(0));
            std::atomic<bool> waits(false);
            root.add([&](Steps steps) {
                steps.set_cancel([&](Steps) { *used += 1; });
                steps.add([&](Steps inner) {
                    inner.set_cancel([&](Steps) { *used += 10; });
                    waits = true;
                });
            });
            root.execute([](Steps, const char *code) { is("no error", code, ""); });
            auto cancel = [&] {
                // also one that has hardly begun
                while (round % 2 && !waits) {
                    std::this_thread::yield();
                }
                root.cancel();
                is("over", asyncsteps_is_over(root.binary()), 1);
                is("handlers", waits ? *used == 11 : *used <= 1, true);
                used.reset();
                root.cancel();
            };
            if (kind == ASYNCSTEPS_LOOP_THREAD) {
                cancel();
                continue;
            }
            std::atomic<bool> runs(false);
            Root first(loop);
            first.add([&](Steps) { runs = true; });
            first.execute([](Steps, const char *) {});
            std::thread other([&] {
                while (!runs) {
                    std::this_thread::yield();
                }
                cancel();
            });
            loop.run();
            other.join();
        }
    }
}

// It does not wait for a loop that does not run, nor do two loops wait for each other.
void cancelled_without_waiting()
{
    {
        Loop loop(ASYNCSTEPS_LOOP_DRIVEN);
        Root root(loop);
        int cancelled = 0;
        root.add([&](Steps steps) { steps.set_cancel([&](Steps) { ++cancelled; }); });
        root.execute([](Steps, const char *) {});
        asyncsteps_loop_iterate(loop.get());
        std::thread([&] { root.cancel(); }).join();
        is("not yet", asyncsteps_is_over(root.binary()), 0);
        loop.run();
        is("cancelled", cancelled, 1);
    }
    std::atomic<int> over(0);
    for (int round = 0; round < 20; ++round) {
        Loop one(ASYNCSTEPS_LOOP_THREAD), two(ASYNCSTEPS_LOOP_THREAD);
        Root a(one), b(two);
        std::atomic<int> ready(0);
        for (Root *root : {&a, &b}) {
            Root *other = root == &a ? &b : &a;
            root->add([&ready, other](Steps steps) {
                steps.set_cancel([](Steps) {});
                ++ready;
                while (ready < 2) {
                    std::this_thread::yield();
                }
                other->cancel();
            });
        }
        for (Root *root : {&a, &b}) {
            root->execute([](Steps, const char *) {});
        }
        for (Root *root : {&a, &b}) {
            wait_for(*root);
            ++over;
        }
    }
    is("over", over, 40);
}

// ---- Scheduled callbacks --------------------------------------------------------------------------------

// As the binding of FutoIn for C++ declares its tool: what `data2` of a handle is to it.
class Tool
{
public:
    virtual ~Tool() {}
    virtual void *immediate() = 0;
    virtual void *deferred() = 0;
    virtual bool is_same_thread() = 0;
    virtual size_t iterate() = 0;
    virtual void *mem_pool() = 0;
    virtual void release_memory() = 0;
    virtual void cancel(FutoInHandle &handle) = 0;
    virtual bool is_valid(FutoInHandle &handle) = 0;
    virtual size_t what_comes_next(int number) = 0;
};

void handles_are_objects()
{
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    Root root(loop);
    int called = 0;
    auto count = [](void *data) { ++*static_cast<int *>(data); };
    FutoInHandle never = root.deferred(10, &called, count), once = root.deferred(20, &called, count);
    Tool &tool = *static_cast<Tool *>(never.data2);
    is("valid", tool.is_valid(never) && tool.is_valid(once), 1);
    FutoInHandle copy = never;
    tool.cancel(never);
    is("reset", never.data1 == nullptr && !tool.is_valid(never), true);
    is("cancelled", api(root)->sched_is_valid(root.binary(), &copy) || tool.is_valid(copy), 0);
    tool.cancel(never);
    tool.cancel(copy);
    loop.run();
    is("called", called, 1);
    is("over", tool.is_valid(once), 0);
    FutoInHandle none = FutoInHandle();
    tool.cancel(none);
    is("none", tool.is_valid(none), 0);
    // nothing else does anything
    is("others", tool.is_same_thread() || tool.iterate() || tool.mem_pool() || tool.what_comes_next(7), 0);
    tool.release_memory();
}

// A delay counts from when it is asked for, also if the loop has slept until then.
void delays_begin_when_they_are_asked_for()
{
    Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
    Root root(loop);
    static std::string notes;
    notes.clear();
    root.deferred(1000, nullptr, [](void *) { notes += "first "; });
    // the time goes to the timer, which is not called before the next round
    while (asyncsteps_loop_iterate(loop.get()) != 0) {
    }
    root.deferred(10, nullptr, [](void *) { notes += "later"; });
    loop.run();
    is("order", notes, "first later");
    is("nothing is left", asyncsteps_loop_iterate(loop.get()), -1);
}

} // namespace

int main()
{
    asyncsteps_set_log([](void *, const char *) {}, nullptr);
    variables_on_any_thread();
    variables_made_at_once();
    names_of_variables();
    errors_in_their_callback();
    exceptions_are_null();
    steps_in_progress();
    valid_roots();
    executed_again();
    begun_anew_by_its_handler();
    cancelled_from_elsewhere();
    cancelled_without_waiting();
    handles_are_objects();
    delays_begin_when_they_are_asked_for();
    return result();
}
