// AsyncSteps in C++11: RAII wrappers around the binary interface (FTN12 2.7).
//
// Steps are callables that take `Steps` and optionally the arguments of the step. An exception
// that leaves a step fails it: `Error` with its code, any other one with InternalError.
#ifndef ASYNCSTEPS_HPP
#define ASYNCSTEPS_HPP

#include "asyncsteps.h"

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace asyncsteps {

/// The exception that a step throws to fail with a code.
class Error : public std::runtime_error
{
public:
    explicit Error(const std::string &code, const std::string &info = "") :
        std::runtime_error(code), info_(info)
    {}

    const std::string &info() const
    {
        return info_;
    }

private:
    std::string info_;
};

namespace detail {

/// Conversions of C++ types to binary values: numbers as they are, text and vectors with an owner.
template<typename T>
struct Binary;

template<typename T, FutoInTypeFlags flags, T FutoInBinaryValue::*member>
struct Number
{
    static FutoInBinaryValue to(T value)
    {
        static const FutoInType type = {flags, nullptr};
        FutoInBinaryValue binary = FutoInBinaryValue();
        binary.type = &type;
        binary.*member = value;
        return binary;
    }

    static T from(const FutoInBinaryValue &binary)
    {
        if (!binary.type || binary.type->flags != flags) {
            throw Error("InternalError", "an argument of another type");
        }
        return binary.*member;
    }
};

#define ASYNCSTEPS_NUMBER(type, flags, member) \
    template<> \
    struct Binary<type> : Number<type, flags, &FutoInBinaryValue::member> \
    {}
ASYNCSTEPS_NUMBER(bool, FTN_TYPE_BOOL, b);
ASYNCSTEPS_NUMBER(int8_t, FTN_TYPE_INT8, i8);
ASYNCSTEPS_NUMBER(int16_t, FTN_TYPE_INT16, i16);
ASYNCSTEPS_NUMBER(int32_t, FTN_TYPE_INT32, i32);
ASYNCSTEPS_NUMBER(int64_t, FTN_TYPE_INT64, i64);
ASYNCSTEPS_NUMBER(uint8_t, FTN_TYPE_UINT8, u8);
ASYNCSTEPS_NUMBER(uint16_t, FTN_TYPE_UINT16, u16);
ASYNCSTEPS_NUMBER(uint32_t, FTN_TYPE_UINT32, u32);
ASYNCSTEPS_NUMBER(uint64_t, FTN_TYPE_UINT64, u64);
ASYNCSTEPS_NUMBER(float, FTN_TYPE_FLOAT, f);
ASYNCSTEPS_NUMBER(double, FTN_TYPE_DOUBLE, d);
#undef ASYNCSTEPS_NUMBER

/// A value that owns an object of C++.
template<typename T>
FutoInBinaryValue own(const FutoInType &type, T *object, const void *data, size_t length)
{
    FutoInBinaryValue binary = FutoInBinaryValue();
    binary.type = &type;
    binary.p = data;
    binary.custom_data = object;
    binary.length = static_cast<uint32_t>(length);
    return binary;
}

template<typename T>
void release(FutoInBinaryValue *v)
{
    delete static_cast<T *>(v->custom_data);
}

template<>
struct Binary<std::string>
{
    static FutoInBinaryValue to(std::string value)
    {
        static const FutoInType type = {FTN_TYPE_STRING, release<std::string>};
        std::string *owner = new std::string(std::move(value));
        return own(type, owner, owner->c_str(), owner->size());
    }

    static std::string from(const FutoInBinaryValue &binary)
    {
        if (!binary.type || binary.type->flags != FTN_TYPE_STRING || !binary.cstr) {
            throw Error("InternalError", "an argument of another type");
        }
        return binary.length ? std::string(binary.cstr, binary.length) : std::string(binary.cstr);
    }
};

template<typename T>
struct Binary<std::vector<T>>
{
    static const FutoInTypeFlags flags = FTN_TYPE_ARRAY;

    static FutoInBinaryValue to(std::vector<T> value)
    {
        static const FutoInType type = {
                static_cast<FutoInTypeFlags>(flags | Binary<T>::to(T()).type->flags),
                release<std::vector<T>>};
        std::vector<T> *owner = new std::vector<T>(std::move(value));
        return own(type, owner, owner->data(), owner->size());
    }

    static std::vector<T> from(const FutoInBinaryValue &binary)
    {
        if (!binary.type || binary.type->flags != (flags | Binary<T>::to(T()).type->flags)) {
            throw Error("InternalError", "an argument of another type");
        }
        const T *first = static_cast<const T *>(binary.p);
        return std::vector<T>(first, first + binary.length);
    }
};

/// The numbers from 0 up to another number.
template<size_t...>
struct Indices
{};

template<size_t n, size_t... at>
struct Count : Count<n - 1, n - 1, at...>
{};

template<size_t... at>
struct Count<0, at...>
{
    typedef Indices<at...> type;
};

} // namespace detail

/// The interface of a step (FTN12 2.2). It is a pointer: copy it where it is needed.
class Steps
{
public:
    explicit Steps(FutoInAsyncSteps *bsi) : bsi_(bsi) {}

    /// The binary interface itself.
    FutoInAsyncSteps *binary() const
    {
        return bsi_;
    }

    /// Adds a step: `void(Steps)` with up to four typed arguments.
    template<typename F>
    const Steps &add(F f) const
    {
        api()->add(bsi_, keep(std::move(f)), execute<F>, nullptr);
        return *this;
    }

    /// The same with an error handler, `void(Steps, const char *code)`.
    template<typename F, typename H>
    const Steps &add(F f, H handler) const
    {
        typedef std::pair<F, H> Both;
        void *both = keep(Both(std::move(f), std::move(handler)));
        api()->add(bsi_, both, execute_first<Both>, handle_second<Both>);
        return *this;
    }

    /// Adds a step that runs while it holds `sync`.
    template<typename F>
    const Steps &sync(FutoInSync *sync, F f) const
    {
        api()->addSync(bsi_, sync, keep(std::move(f)), execute<F>, nullptr);
        return *this;
    }

    /// Adds a parallel step. Steps added to the result are its branches.
    Steps parallel() const
    {
        return Steps(api()->parallel(bsi_, nullptr, nullptr));
    }

    /// Adds a loop, `void(Steps)`.
    template<typename F>
    const Steps &loop(F f, const char *label = nullptr) const
    {
        api()->loop(bsi_, keep(std::move(f)), iterate<F>, label);
        return *this;
    }

    /// Adds a counted loop, `void(Steps, size_t)`.
    template<typename F>
    const Steps &repeat(size_t count, F f, const char *label = nullptr) const
    {
        api()->repeat(bsi_, keep(std::move(f)), count, iterate_counted<F>, label);
        return *this;
    }

    /// Leaves a loop; return after it.
    void break_loop(const char *label = nullptr) const
    {
        api()->breakLoop(bsi_, label);
    }

    /// Goes on with the next iteration; return after it.
    void continue_loop(const char *label = nullptr) const
    {
        api()->continueLoop(bsi_, label);
    }

    /// Completes the step; also from other threads, if it waits.
    template<typename... T>
    void success(T... values) const
    {
        static_assert(sizeof...(T) <= 4, "a result has at most four values");
        FutoInArgs args = FutoInArgs();
        FutoInBinaryValue list[] = {FutoInBinaryValue(), detail::Binary<T>::to(std::move(values))...};
        std::memcpy(args.args, list + 1, sizeof...(T) * sizeof(FutoInBinaryValue));
        api()->success(bsi_, &args);
    }

    /// Fails the step; also from other threads, if it waits.
    void error(const std::string &code, const std::string &info = "") const
    {
        api()->handle_error(bsi_, code.c_str(), info.c_str());
    }

    void set_timeout(uint32_t ms) const
    {
        api()->setTimeout(bsi_, ms);
    }

    template<typename F>
    void set_cancel(F f) const
    {
        api()->setCancel(bsi_, keep(std::move(f)), iterate<F>);
    }

    void wait_external() const
    {
        api()->waitExternal(bsi_);
    }

    /// An object that lives as long as the step.
    template<typename T, typename... Args>
    T &stack(Args &&...args) const
    {
        return *new (memory<T>(destroy<T>)) T(std::forward<Args>(args)...);
    }

    /// A state variable of the flow, made on its first use.
    template<typename T>
    T &state(const char *name) const
    {
        return *static_cast<T *>(api()->stateVariable(
                bsi_, nullptr, name, [](void *) -> void * { return new T(); },
                [](void *, void *value) { delete static_cast<T *>(value); }));
    }

    /// The information of the last error.
    const char *error_info() const
    {
        return static_cast<const char *>(
                api()->stateVariable(bsi_, nullptr, "error_info", nullptr, nullptr));
    }

    /// Calls `cb` with `data` on the event loop after a delay.
    FutoInHandle deferred(uint32_t ms, void *data, void (*cb)(void *)) const
    {
        return api()->sched_deferred(bsi_, ms, data, cb);
    }

protected:
    const FutoInAsyncStepsAPI *api() const
    {
        return bsi_->api;
    }

    /// Keeps a callable as long as the step, which destroys it however it ends.
    template<typename F>
    void *keep(F f) const
    {
        return new (memory<F>(destroy<F>)) F(std::move(f));
    }

    FutoInAsyncSteps *bsi_;

private:
    template<typename T>
    static void destroy(void *object)
    {
        static_cast<T *>(object)->~T();
    }

    template<typename T>
    void *memory(void (*cleanup)(void *)) const
    {
        static_assert(alignof(T) <= 16, "memory of steps is aligned to 16");
        void *memory = api()->stack(bsi_, sizeof(T), cleanup);
        if (!memory) {
            throw std::bad_alloc();
        }
        return memory;
    }

    /// Calls a function that may throw.
    template<typename F>
    static void guarded(FutoInAsyncSteps *bsi, F run)
    {
        try {
            run(Steps(bsi));
        } catch (const Error &error) {
            Steps(bsi).error(error.what(), error.info());
        } catch (const std::exception &error) {
            Steps(bsi).error("InternalError", error.what());
        } catch (...) {
            Steps(bsi).error("InternalError", "an exception of an unknown type");
        }
    }

    template<typename F, typename R, typename... Args, size_t... at>
    static void
    call(F &f,
         Steps steps,
         const FutoInArgs *args,
         R (F::*)(Steps, Args...) const,
         detail::Indices<at...>)
    {
        (void)args;
        f(steps, detail::Binary<typename std::decay<Args>::type>::from(args->args[at])...);
    }

    template<typename F, typename R, typename... Args>
    static void
    call(F &f, Steps steps, const FutoInArgs *args, R (F::*method)(Steps, Args...) const)
    {
        call(f, steps, args, method, typename detail::Count<sizeof...(Args)>::type());
    }

    template<typename F>
    static void execute(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
    {
        guarded(bsi, [&](Steps steps) {
            call(*static_cast<F *>(data), steps, args, &F::operator());
        });
    }

    template<typename Both>
    static void execute_first(FutoInAsyncSteps *bsi, void *data, const FutoInArgs *args)
    {
        execute<typename Both::first_type>(bsi, &static_cast<Both *>(data)->first, args);
    }

    template<typename Both>
    static void handle_second(FutoInAsyncSteps *bsi, void *data, const char *code)
    {
        guarded(bsi, [&](Steps steps) { static_cast<Both *>(data)->second(steps, code); });
    }

    template<typename F>
    static void iterate(FutoInAsyncSteps *bsi, void *data)
    {
        guarded(bsi, [&](Steps steps) { (*static_cast<F *>(data))(steps); });
    }

    template<typename F>
    static void iterate_counted(FutoInAsyncSteps *bsi, void *data, size_t i)
    {
        guarded(bsi, [&](Steps steps) { (*static_cast<F *>(data))(steps, i); });
    }
};

/// An event loop; see `asyncsteps_loop_new` for its kinds.
class Loop
{
public:
    explicit Loop(int kind) : loop_(asyncsteps_loop_new(kind))
    {
        if (!loop_) {
            throw std::runtime_error(asyncsteps_last_error());
        }
    }

    Loop(const Loop &) = delete;
    Loop &operator=(const Loop &) = delete;

    ~Loop()
    {
        asyncsteps_loop_free(loop_);
    }

    /// Runs until no flow is left.
    void run()
    {
        if (asyncsteps_loop_run(loop_) != 0) {
            throw std::runtime_error(asyncsteps_last_error());
        }
    }

    AsyncStepsLoop *get() const
    {
        return loop_;
    }

private:
    AsyncStepsLoop *loop_;
};

/// A root; it is cancelled if it is still running when it is destroyed.
class Root : public Steps
{
public:
    explicit Root(const Loop &loop) : Steps(asyncsteps_root_new(loop.get())) {}

    Root(const Root &) = delete;
    Root &operator=(const Root &) = delete;

    ~Root()
    {
        api()->free(bsi_);
    }

    /// Starts the flow; `unhandled`, `void(Steps, const char *code)`, gets the error that ends it.
    template<typename H>
    void execute(H unhandled)
    {
        api()->execute(bsi_, keep(std::move(unhandled)), handle<H>);
    }

    /// Cancels the flow; on another thread than that of its loop this waits until it has ended.
    void cancel()
    {
        api()->cancel(bsi_);
    }

    /// Whether the flow was executed and has ended.
    bool is_over() const
    {
        return asyncsteps_is_over(bsi_) != 0;
    }

private:
    template<typename H>
    static void handle(FutoInAsyncSteps *bsi, void *data, const char *code)
    {
        (*static_cast<H *>(data))(Steps(bsi), code);
    }
};

/// A mutex; it outlives the flows that use it.
class Mutex
{
public:
    explicit Mutex(uint32_t max = 1, uint32_t max_queue = ASYNCSTEPS_NO_LIMIT) :
        sync_(asyncsteps_mutex_new(max, max_queue))
    {
        if (!sync_) {
            throw std::runtime_error(asyncsteps_last_error());
        }
    }

    Mutex(const Mutex &) = delete;
    Mutex &operator=(const Mutex &) = delete;

    ~Mutex()
    {
        asyncsteps_sync_free(sync_);
    }

    FutoInSync *get() const
    {
        return sync_;
    }

private:
    FutoInSync *sync_;
};

} // namespace asyncsteps

#endif // ASYNCSTEPS_HPP
