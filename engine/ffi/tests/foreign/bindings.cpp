// What bindings of other projects count on beyond the words of the specification.
#include "../../examples/cpp/asyncsteps.hpp"
#include "check.hpp"

using asyncsteps::Loop;
using asyncsteps::Root;
using asyncsteps::Steps;

namespace {

const FutoInAsyncStepsAPI *api(Steps steps)
{
    return steps.binary()->api;
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
    handles_are_objects();
    delays_begin_when_they_are_asked_for();
    return result();
}
