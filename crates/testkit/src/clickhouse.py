"""The ClickHouse engine as an HTTP server: the library's path, then its options. It runs until standard input ends."""

import ctypes
import os
import sys

# Its own copies of common functions must not be mixed with those of this process.
FLAGS = os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND

words = [b"clickhouse-local"] + [os.fsencode(word) for word in sys.argv[2:]]
# Counting the lines of standard input takes as long as it is open.
words += [b"--structure=line String", b"--input-format=LineAsString"]
words += [b"--query=SYSTEM START LISTEN HTTP; SELECT count() FROM table FORMAT Null"]
run = ctypes.CDLL(sys.argv[1], mode=FLAGS).query_stable_v2
run.restype = ctypes.c_void_p
run(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None))
os._exit(0)
