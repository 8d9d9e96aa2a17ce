"""AsyncSteps in Python: functions as steps.

    ASYNCSTEPS_LIBRARY=target/debug/libasyncsteps_ffi.so python3 examples/python/tour.py
"""

import threading

from asyncsteps import Error, Limiter, Loop, Mutex, kept_count


def run(loop, define):
    """Runs a flow and returns its notes."""
    notes = []
    with loop.root() as root:
        define(root, notes)
        root.execute(lambda asi, code: notes.append(f"unhandled {code}"))
        loop.run()
    assert kept_count() == 0, "a finished flow holds nothing"
    return notes


def arguments(root, notes):
    root.add(lambda asi: asi.success(7, "text é", b"bytes", {"any": "object"}))
    root.add(lambda asi, *args: notes.extend(args))


def errors(root, notes):
    def fail(asi):
        asi.add(lambda asi: asi.error("OutOfStock", "no apples"))

    def recover(asi, code):
        notes.append((code, asi.error_info()))
        asi.success(0.5)

    def bug(asi, number):
        notes.append(number)
        return [][0]

    root.add(fail, recover)
    root.add(bug, lambda asi, code: notes.append((code, asi.error_info())))


def loops(root, notes):
    def body(asi):
        asi.for_each("abc", lambda asi, i, item: notes.append(f"{i}{item}"))
        asi.loop(outer, "OUTER")

    def outer(asi):
        asi.repeat(5, inner)

    def inner(asi, i):
        if i == 2:
            return asi.break_loop("OUTER")
        notes.append(i)

    root.add(body)


def waiting(root, notes):
    def wait(asi):
        asi.wait_external()
        threading.Thread(target=lambda: asi.success("from a thread")).start()

    def limited(asi, text):
        notes.append(text)
        asi.set_cancel(lambda asi: notes.append("cancelled"))
        asi.set_timeout(60_000)

    root.add(wait)
    root.add(limited)


def locks(loop):
    def branches(obj):
        def define(root, notes):
            def section(asi):
                notes.append("in")
                asi.add(pause)
                asi.add(lambda asi: notes.append("out"))

            def pause(asi):
                asi.wait_external()
                asi.call_later(10, asi.success)

            parallel = root.parallel(lambda asi, code: notes.append((code, asi.error_info())))
            for _ in range(2):
                parallel.sync(obj, section)

        return define

    with Mutex() as mutex:
        assert run(loop, branches(mutex)) == ["in", "out", "in", "out"]
    with Limiter(loop) as limiter:
        expected = ["in", ("DefenseRejected", "Mutex queue limit"), "unhandled DefenseRejected"]
        assert run(loop, branches(limiter)) == expected


def own_error(root, notes):
    def fail(asi):
        raise Error("MyError", "why")

    root.add(fail, lambda asi, code: notes.append((code, asi.error_info())))


def main():
    with Loop(Loop.VIRTUAL) as loop:
        assert run(loop, arguments) == [7, "text é", b"bytes", {"any": "object"}]
        assert run(loop, errors) == [
            ("OutOfStock", "no apples"), 0.5,
            ("InternalError", "IndexError: list index out of range"), "unhandled InternalError"]
        assert run(loop, loops) == ["0a", "1b", "2c", 0, 1]
        assert run(loop, waiting) == ["from a thread", "cancelled", "unhandled Timeout"]
        assert run(loop, own_error) == [("MyError", "why"), "unhandled MyError"]
        locks(loop)
    print("passed")


if __name__ == "__main__":
    main()
