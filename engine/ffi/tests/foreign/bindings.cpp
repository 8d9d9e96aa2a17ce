// What bindings of other projects count on beyond the words of the specification.
#include "../../examples/cpp/asyncsteps.hpp"
#include "check.hpp"

using asyncsteps::Loop;
using asyncsteps::Root;
using asyncsteps::Steps;

namespace {

// ---- Scheduled callbacks --------------------------------------------------------------------------------

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
    delays_begin_when_they_are_asked_for();
    return result();
}
