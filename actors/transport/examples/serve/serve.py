"""Serves an interface (FTN3) whose functions are Python functions that take steps; see serve.h."""

import ctypes
import os
from ctypes import c_char_p, c_int, c_uint16, c_void_p

from asyncsteps import callbacks

_lib = ctypes.CDLL(os.environ["ASYNCSTEPS_LIBRARY"])
_lib.serve_new.restype = c_void_p
_lib.serve_new.argtypes = [c_char_p, c_char_p]
_lib.serve_function.restype = None
_lib.serve_function.argtypes = [c_void_p, c_char_p] + [c_void_p] * 4
_lib.serve_start.restype = c_int
_lib.serve_start.argtypes = [c_void_p, c_uint16]
_lib.serve_stop.restype = None
_lib.serve_stop.argtypes = [c_void_p]


class Serve:
    """A server on `port`. `functions` maps names to `step(asi, params)`, which gets the parameters as
    JSON text and gives the result as one."""

    def __init__(self, folder, interface, functions, port=0):
        self.pointer = _lib.serve_new(folder.encode(), interface.encode())
        for name, step in functions.items():
            _lib.serve_function(self.pointer, name.encode(), *callbacks(step))
        self.port = _lib.serve_start(self.pointer, port)
        if self.port < 0:
            self.close()
            raise RuntimeError("it cannot be served")

    def close(self):
        """Cancels what is in flight."""
        _lib.serve_stop(self.pointer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
