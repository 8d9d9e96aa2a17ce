// What the tests in C++ share: checks that are counted.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <cstdlib>
#include <iostream>
#include <string>

static int failures = 0;

static void is(const char *what, const std::string &is, const std::string &should)
{
    if (is != should) {
        std::cerr << what << ":\n  is        " << is << "\n  should be " << should << '\n';
        ++failures;
    }
}

static void is(const char *what, long is, long should)
{
    ::is(what, std::to_string(is), std::to_string(should));
}

// What the program says at its end, and its exit code.
static int result()
{
    std::cout << (failures ? "failed" : "passed") << std::endl;
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif // CHECK_HPP
