// AsyncSteps in C++11: closures as steps, typed arguments, exceptions as errors, RAII.
//
//     c++ -std=c++11 -I include examples/cpp/tour.cpp -L target/debug -lasyncsteps_ffi -lpthread
#include "asyncsteps.hpp"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>

using asyncsteps::Error;
using asyncsteps::Loop;
using asyncsteps::Mutex;
using asyncsteps::Root;
using asyncsteps::Steps;

namespace {

int failures = 0;

// Compares the notes of a part of the tour with the expected ones.
class Notes
{
public:
    explicit Notes(const char *part) : part_(part) {}

    template<typename T>
    Notes &operator<<(const T &what)
    {
        text_ << what << ' ';
        return *this;
    }

    void check(const std::string &expected)
    {
        if (text_.str() != expected) {
            std::cerr << part_ << ":\n  is        " << text_.str() << "\n  should be " << expected
                      << '\n';
            ++failures;
        }
    }

private:
    const char *part_;
    std::ostringstream text_;
};

void run(Loop &loop, Root &root, Notes &notes)
{
    root.execute([&](Steps, const char *code) { notes << "unhandled" << code; });
    loop.run();
}

void arguments(Loop &loop)
{
    Notes notes("arguments");
    Root root(loop);
    root.add([](Steps steps) {
        steps.success(int32_t(7), std::string("text"), std::vector<uint16_t>{1, 2, 3}, 0.5);
    });
    root.add([&](Steps, int32_t number, const std::string &text, std::vector<uint16_t> list, double d) {
        notes << number << text << list.size() << list[2] << d;
    });
    run(loop, root, notes);
    notes.check("7 text 3 3 0.5 ");
}

void errors(Loop &loop)
{
    Notes notes("errors");
    Root root(loop);
    root.add(
            [](Steps steps) {
                steps.add([](Steps) { throw Error("OutOfStock", "no apples"); });
            },
            [&](Steps steps, const char *code) {
                notes << code << steps.error_info();
                steps.success(std::string("pears"));
            });
    root.add([&](Steps, const std::string &what) {
        notes << what;
        throw std::logic_error("a bug");
    });
    run(loop, root, notes);
    notes.check("OutOfStock no apples pears unhandled InternalError ");
}

void objects(Loop &loop)
{
    Notes notes("objects");
    std::weak_ptr<int> watched;
    {
        Root root(loop);
        auto shared = std::make_shared<int>(1);
        watched = shared;
        // the closure owns it and lives as long as the root
        root.add([shared](Steps steps) {
            auto &total = steps.stack<int>(*shared);
            steps.repeat(4, [&total](Steps, size_t i) { total += int(i); });
            steps.loop([&total](Steps inner) {
                if (++total > 9) {
                    inner.break_loop();
                }
            });
            steps.add([&total](Steps inner) { inner.state<int>("total") = total; });
        });
        shared.reset();
        notes << watched.use_count();
        run(loop, root, notes);
        notes << root.state<int>("total");
    }
    notes << watched.use_count();
    notes.check("1 10 0 ");
}

void branches(Loop &loop)
{
    Notes notes("branches");
    Mutex mutex;
    Root root(loop);
    Steps parallel = root.parallel();
    for (int name = 1; name <= 2; ++name) {
        parallel.sync(mutex.get(), [&notes, name](Steps steps) {
            notes << "enter" << name;
            steps.add([](Steps inner) {
                inner.wait_external();
                inner.deferred(1000, inner.binary(), [](void *data) {
                    Steps(static_cast<FutoInAsyncSteps *>(data)).success();
                });
            });
            steps.add([&notes, name](Steps) { notes << "leave" << name; });
        });
    }
    run(loop, root, notes);
    notes.check("enter 1 leave 1 enter 2 leave 2 ");
}

void limits(Loop &loop)
{
    Notes notes("limits");
    Root root(loop);
    root.add([&](Steps steps) {
        steps.set_timeout(60 * 1000);
        steps.set_cancel([&](Steps) { notes << "cancelled"; });
    });
    run(loop, root, notes);
    notes.check("cancelled unhandled Timeout ");
}

// A loop on its own thread: a flow is configured here, runs there, and a third thread completes it.
void threads()
{
    Notes notes("threads");
    std::thread other;
    {
        Loop loop(ASYNCSTEPS_LOOP_THREAD);
        Root root(loop);
        root.add([&](Steps steps) {
            steps.wait_external();
            other = std::thread([steps] { steps.success(std::string("from a thread")); });
        });
        root.add([&](Steps, const std::string &text) { notes << text; });
        root.execute([&](Steps, const char *code) { notes << "unhandled" << code; });
        while (!root.is_over()) {
            std::this_thread::yield();
        }
    }
    other.join();
    notes.check("from a thread ");
}

} // namespace

int main()
{
    {
        Loop loop(ASYNCSTEPS_LOOP_VIRTUAL);
        arguments(loop);
        errors(loop);
        objects(loop);
        branches(loop);
        limits(loop);
    }
    threads();
    std::cout << (failures ? "failed" : "passed") << std::endl;
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
