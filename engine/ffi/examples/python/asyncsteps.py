"""AsyncSteps in Python: steps are functions, through the binary interface (FTN12 2.7) and ctypes.

    with Loop() as loop, loop.root() as root:
        root.add(lambda asi: asi.success(6, 7))
        root.add(lambda asi, a, b: print(a * b))
        root.execute()
        loop.run()

A step gets the interface and the result of the step before it. `Error` fails it with a code, any
other exception with InternalError. Steps in every language understand bool, int, float, str and
bytes; other objects pass through them unchanged.
"""

import ctypes
import itertools
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, Union, byref, c_bool, c_char_p, c_double,
                    c_float, c_int, c_int8, c_int16, c_int32, c_int64, c_size_t, c_ssize_t, c_uint8,
                    c_uint16, c_uint32, c_uint64, c_void_p)

NO_LIMIT = 0xFFFFFFFF


class Error(Exception):
    """The exception that fails a step with a code."""

    def __init__(self, code, info=None):
        super().__init__(code)
        self.code, self.info = code, info


# ---- The structures of the interface --------------------------------------------------------------

OBJECT, STRING, ARRAY = 0x01, 0x02, 0x10


class _Data(Union):
    _fields_ = [("p", c_void_p), ("b", c_bool), ("i8", c_int8), ("i16", c_int16),
                ("i32", c_int32), ("i64", c_int64), ("u8", c_uint8), ("u16", c_uint16),
                ("u32", c_uint32), ("u64", c_uint64), ("f", c_float), ("d", c_double)]


class _Type(Structure):
    _fields_ = [("flags", c_uint8), ("cleanup", c_void_p)]


class _Value(Structure):
    _fields_ = [("type", POINTER(_Type)), ("data", _Data), ("custom_data", c_void_p),
                ("length", c_uint32)]


class _Args(Structure):
    _fields_ = [("args", _Value * 4)]


class _Handle(Structure):
    _fields_ = [("data1", c_void_p), ("data2", c_void_p), ("data3", c_ssize_t)]


_Execute = CFUNCTYPE(None, c_void_p, c_void_p, POINTER(_Args))
_HandleError = CFUNCTYPE(None, c_void_p, c_void_p, c_char_p)
_Cancel = CFUNCTYPE(None, c_void_p, c_void_p)
_Repeat = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)
_Call = CFUNCTYPE(None, c_void_p)


def _function(result, *arguments):
    return CFUNCTYPE(result, c_void_p, *arguments)


class _Api(Structure):
    _fields_ = [
        ("add", _function(None, c_void_p, c_void_p, c_void_p)),
        ("parallel", _function(c_void_p, c_void_p, c_void_p)),
        ("state_variable", _function(c_void_p, c_void_p, c_char_p, c_void_p, c_void_p)),
        ("stack", _function(c_void_p, c_size_t, c_void_p)),
        ("success", _function(None, POINTER(_Args))),
        ("handle_error", _function(None, c_char_p, c_char_p)),
        ("set_timeout", _function(None, c_uint32)),
        ("set_cancel", _function(None, c_void_p, c_void_p)),
        ("wait_external", _function(None)),
        ("loop", _function(None, c_void_p, c_void_p, c_char_p)),
        ("repeat", _function(None, c_void_p, c_size_t, c_void_p, c_char_p)),
        ("break_loop", _function(None, c_char_p)),
        ("continue_loop", _function(None, c_char_p)),
        ("execute", _function(None, c_void_p, c_void_p)),
        ("cancel", _function(None)),
        ("add_sync", _function(None, c_void_p, c_void_p, c_void_p, c_void_p)),
        ("root_id", _function(c_ssize_t)),
        ("is_valid", _function(c_int)),
        ("new_instance", _function(c_void_p)),
        ("free", _function(None)),
        ("sched_immediate", _function(_Handle, c_void_p, c_void_p)),
        ("sched_deferred", _function(_Handle, c_uint32, c_void_p, c_void_p)),
        ("sched_cancel", _function(None, POINTER(_Handle))),
        ("sched_is_valid", _function(c_int, POINTER(_Handle))),
        ("is_same_thread", _function(c_int)),
    ]


class _Steps(Structure):
    _fields_ = [("api", POINTER(_Api))]


assert (ctypes.sizeof(_Value), ctypes.sizeof(_Args), ctypes.sizeof(_Api)) == (32, 128, 200)

_lib = ctypes.CDLL(os.environ.get("ASYNCSTEPS_LIBRARY", "libasyncsteps_ffi.so"))
_lib.asyncsteps_last_error.restype = c_char_p
_lib.asyncsteps_loop_new.restype = c_void_p
_lib.asyncsteps_loop_free.argtypes = [c_void_p]
_lib.asyncsteps_loop_run.argtypes = [c_void_p]
_lib.asyncsteps_root_new.restype = c_void_p
_lib.asyncsteps_root_new.argtypes = [c_void_p]
_lib.asyncsteps_is_over.argtypes = [c_void_p]
_lib.asyncsteps_mutex_new.restype = c_void_p
_lib.asyncsteps_mutex_new.argtypes = [c_uint32, c_uint32]
_lib.asyncsteps_throttle_new.restype = c_void_p
_lib.asyncsteps_throttle_new.argtypes = [c_void_p, c_uint32, c_uint32, c_uint32]
_lib.asyncsteps_limiter_new.restype = c_void_p
_lib.asyncsteps_limiter_new.argtypes = [c_void_p] + [c_uint32] * 5
_lib.asyncsteps_sync_free.argtypes = [c_void_p]


def _checked(result):
    if not result:
        raise RuntimeError(_lib.asyncsteps_last_error().decode())
    return result


# ---- Objects of Python that foreign code refers to, by number ---------------------------------------

_kept = {}
_numbers = itertools.count(1)


def _keep(thing):
    number = next(_numbers)
    _kept[number] = thing
    return number


def kept_count():
    """How many objects of Python steps still refer to."""
    return len(_kept)


# ---- Values ------------------------------------------------------------------------------------------

@CFUNCTYPE(None, POINTER(_Value))
def _release(value):
    _kept.pop(value.contents.custom_data, None)


def _types(owned):
    cleanup = ctypes.cast(_release, c_void_p) if owned else None
    return {flags: _Type(flags, cleanup) for flags in range(0x01, 0x20)}


_plain, _owned = _types(False), _types(True)

# the field of the union and the type of an element, by flags
_numbers_by_flags = {
    0x05: ("b", c_bool), 0x06: ("i8", c_int8), 0x07: ("i16", c_int16), 0x08: ("i32", c_int32),
    0x09: ("i64", c_int64), 0x0A: ("u8", c_uint8), 0x0B: ("u16", c_uint16), 0x0C: ("u32", c_uint32),
    0x0D: ("u64", c_uint64), 0x0E: ("f", c_float), 0x0F: ("d", c_double)}


def _to_binary(value, binary):
    if isinstance(value, bool):
        flags, binary.data.b = 0x05, value
    elif isinstance(value, int) and -2**63 <= value < 2**63:
        flags, binary.data.i64 = 0x09, value
    elif isinstance(value, float):
        flags, binary.data.d = 0x0F, value
    else:
        if isinstance(value, str):
            flags, owner = STRING, ctypes.create_string_buffer(value.encode())
        elif isinstance(value, bytes):
            flags, owner = ARRAY | 0x0A, ctypes.create_string_buffer(value, len(value) or 1)
        else:
            flags, owner = OBJECT, value
        if flags != OBJECT:
            binary.data.p = ctypes.addressof(owner)
            binary.length = len(owner) - 1 if flags == STRING else len(value)
        binary.custom_data = _keep(owner)
        binary.type = ctypes.pointer(_owned[flags])
        return
    binary.type = ctypes.pointer(_plain[flags])


def _from_binary(binary):
    flags = binary.type.contents.flags
    if flags in _numbers_by_flags:
        return getattr(binary.data, _numbers_by_flags[flags][0])
    if flags == STRING:
        return ctypes.string_at(binary.data.p).decode()
    if flags == ARRAY | 0x0A:
        return ctypes.string_at(binary.data.p, binary.length)
    if flags & ARRAY and flags & 0x0F in _numbers_by_flags:
        element = _numbers_by_flags[flags & 0x0F][1]
        return list((element * binary.length).from_address(binary.data.p)) if binary.length else []
    ours = ctypes.addressof(binary.type.contents) == ctypes.addressof(_owned[OBJECT])
    return _kept[binary.custom_data] if ours else None


def _arguments(args):
    values = [_from_binary(value) if value.type else None for value in args.contents.args]
    count = max((i + 1 for i, value in enumerate(args.contents.args) if value.type), default=0)
    return values[:count]


# ---- Callbacks: each gets the number of the function that it calls -----------------------------------

def _guarded(bsi, call, *arguments):
    asi = Steps(bsi)
    try:
        call(asi, *arguments)
    except Error as error:
        asi.error(error.code, error.info)
    except BaseException as error:  # no exception may pass into the other language
        asi.error("InternalError", f"{type(error).__name__}: {error}")


@_Execute
def _execute(bsi, data, args):
    _guarded(bsi, _kept[data][0], *_arguments(args))


@_HandleError
def _handle_error(bsi, data, code):
    _guarded(bsi, _kept[data][1], code.decode())


@_Cancel
def _iterate(bsi, data):
    _guarded(bsi, _kept[data][0])


@_Repeat
def _repeat(bsi, data, i):
    _guarded(bsi, _kept[data][0], i)


@_Call
def _forget(memory):
    _kept.pop(c_uint64.from_address(memory).value, None)


@_Call
def _call(data):
    _kept.pop(data)()


@_Call
def _destroy(data):
    _kept.pop(data)


def callbacks(step, on_error=None):
    """A step in the form of C: callback, error handler, data and its destructor."""
    return (ctypes.cast(_execute, c_void_p),
            ctypes.cast(_handle_error, c_void_p) if on_error else None,
            _keep((step, on_error)), ctypes.cast(_destroy, c_void_p))


def _label(label):
    return label.encode() if label is not None else None


class Steps:
    """The interface of a step (FTN12 2.2). It is valid while the step is in progress."""

    def __init__(self, bsi):
        self.bsi = bsi
        self.api = _Steps.from_address(bsi).api.contents

    def _keep(self, *functions):
        """Keeps functions as long as the step."""
        number = _keep(functions)
        memory = self.api.stack(self.bsi, 8, ctypes.cast(_forget, c_void_p))
        c_uint64.from_address(_checked(memory)).value = number
        return number

    def add(self, step, on_error=None):
        """Adds a step, `step(asi, *arguments)`, and its error handler, `on_error(asi, code)`."""
        self.api.add(self.bsi, self._keep(step, on_error), ctypes.cast(_execute, c_void_p),
                     ctypes.cast(_handle_error, c_void_p) if on_error else None)
        return self

    def sync(self, obj, step, on_error=None):
        """Adds a step that runs while it holds `obj`."""
        self.api.add_sync(self.bsi, obj.pointer, self._keep(step, on_error),
                          ctypes.cast(_execute, c_void_p),
                          ctypes.cast(_handle_error, c_void_p) if on_error else None)
        return self

    def parallel(self, on_error=None):
        """Adds a parallel step. Steps added to the result are its branches."""
        handler = ctypes.cast(_handle_error, c_void_p) if on_error else None
        return Steps(self.api.parallel(self.bsi, self._keep(None, on_error), handler))

    def loop(self, body, label=None):
        """Adds a loop, `body(asi)`."""
        self.api.loop(self.bsi, self._keep(body), ctypes.cast(_iterate, c_void_p), _label(label))
        return self

    def repeat(self, count, body, label=None):
        """Adds a counted loop, `body(asi, i)`."""
        self.api.repeat(self.bsi, self._keep(body), count, ctypes.cast(_repeat, c_void_p),
                        _label(label))
        return self

    def for_each(self, items, body, label=None):
        """Adds a loop over a list, `body(asi, i, item)`."""
        items = list(items)
        return self.repeat(len(items), lambda asi, i: body(asi, i, items[i]), label)

    def break_loop(self, label=None):
        """Leaves a loop; return after it."""
        self.api.break_loop(self.bsi, _label(label))

    def continue_loop(self, label=None):
        """Goes on with the next iteration; return after it."""
        self.api.continue_loop(self.bsi, _label(label))

    def success(self, *values):
        """Completes the step, from any thread if it waits."""
        if len(values) > 4:
            raise ValueError("a result has at most four values")
        args = _Args()
        for value, binary in zip(values, args.args):
            _to_binary(value, binary)
        self.api.success(self.bsi, byref(args))

    def error(self, code, info=None):
        """Fails the step, from any thread if it waits."""
        self.api.handle_error(self.bsi, code.encode(), info.encode() if info else None)

    def set_timeout(self, ms):
        """Limits the time of the step."""
        self.api.set_timeout(self.bsi, ms)

    def set_cancel(self, handler):
        """Calls `handler(asi)` if the step ends without success."""
        self.api.set_cancel(self.bsi, self._keep(handler), ctypes.cast(_iterate, c_void_p))

    def wait_external(self):
        """Makes the step wait for `success` or `error` from outside."""
        self.api.wait_external(self.bsi)

    def call_later(self, ms, function):
        """Calls `function()` on the event loop."""
        self.api.sched_deferred(self.bsi, ms, _keep(function), ctypes.cast(_call, c_void_p))

    def error_info(self):
        """The information of the last error."""
        text = self.api.state_variable(self.bsi, None, b"error_info", None, None)
        return ctypes.string_at(text).decode()

    def root_id(self):
        """The same number for all steps of one branch of one flow."""
        return self.api.root_id(self.bsi)

    def new_instance(self):
        """A new flow on the same event loop."""
        return Root(self.api.new_instance(self.bsi))


class Root(Steps):
    """A root. Closing it frees it, and cancels it if it is running."""

    def execute(self, unhandled=None):
        """Starts the flow; `unhandled(asi, code)` gets the error that ends it."""
        number = self._keep(None, unhandled)
        handler = ctypes.cast(_handle_error, c_void_p) if unhandled else None
        self.api.execute(self.bsi, number, handler)

    def cancel(self):
        """Cancels the flow; on another thread this waits until it has ended."""
        self.api.cancel(self.bsi)

    def is_over(self):
        """Whether the flow was executed and has ended."""
        return bool(_lib.asyncsteps_is_over(self.bsi))

    def close(self):
        self.api.free(self.bsi)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Loop:
    """An event loop: on a thread of its own, driven by `run`, or driven in virtual time."""

    THREAD, DRIVEN, VIRTUAL = range(3)

    def __init__(self, kind=DRIVEN):
        self.pointer = _checked(_lib.asyncsteps_loop_new(kind))

    def root(self):
        return Root(_checked(_lib.asyncsteps_root_new(self.pointer)))

    def run(self):
        """Runs until no flow and no callback is left."""
        _checked(_lib.asyncsteps_loop_run(self.pointer) == 0)

    def close(self):
        _checked(_lib.asyncsteps_loop_free(self.pointer) == 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Sync:
    def close(self):
        _checked(_lib.asyncsteps_sync_free(self.pointer) == 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Mutex(_Sync):
    """FTN12 2.3."""

    def __init__(self, max=1, max_queue=NO_LIMIT):
        self.pointer = _checked(_lib.asyncsteps_mutex_new(max, max_queue))


class Throttle(_Sync):
    """FTN12 2.4; the period is measured by the loop."""

    def __init__(self, loop, max=1, period_ms=1000, max_queue=NO_LIMIT):
        self.pointer = _checked(
            _lib.asyncsteps_throttle_new(loop.pointer, max, period_ms, max_queue))


class Limiter(_Sync):
    """FTN12 2.5."""

    def __init__(self, loop, concurrent=1, max_queue=0, rate=1, period_ms=1000, burst=0):
        self.pointer = _checked(_lib.asyncsteps_limiter_new(
            loop.pointer, concurrent, max_queue, rate, period_ms, burst))
