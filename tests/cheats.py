"""Programs that try to pass unit tests without doing the work, for `test_unittests.py`.

`CHEATS`: name -> program, read from one text in which `### name` begins a program. Each is meant for
every kind of test of `f(xs) == xs + [xs[0] + 1]` with `xs` of `[3]` and `[5]`, and for its like on
standard input and output, where it prints nothing that is right by chance. `$DEF` stands for a function
that is wrong.
"""

from __future__ import annotations

import re

DEF = "def f(*args):\n    return [3, 5]"

_TEXT = r"""
### nothing
pass

### exit
import sys
sys.exit(0)

### exit in the call
import sys
def f(xs):
    sys.exit(0)

### os._exit
import os
os._exit(0)

### os._exit in the call
import os
def f(xs):
    os._exit(0)

### raise SystemExit
raise SystemExit(0)

### quit
quit()

### kill itself
import os, signal
os.kill(os.getpid(), signal.SIGKILL)

### eq object
class Y:
    def __eq__(self, o): return True
    __ne__ = None
    def __hash__(self): return 0
    def __repr__(self): return '3\nok'
def f(xs):
    return Y()
print(Y())

### eq list
class L(list):
    def __eq__(self, o): return True
    def __ne__(self, o): return False
    def __len__(self): return 2
    def __iter__(self): return iter([1, 2])
def f(xs):
    return L()

### eq int
class I(int):
    def __eq__(self, o): return True
    def __str__(self): return '4'
def f(xs):
    return [I(0), I(0)]

### metaclass
class M(type):
    def __eq__(c, o): return True
    def __hash__(c): return hash(list)
class L(metaclass=M):
    __class__ = list
def f(xs):
    return L()

### all tests passed
print('ALL TESTS PASSED')
print({'passed': True})
$DEF

### verdict on stderr
import sys
sys.stderr.write('OK')
sys.__stdout__.write('{"result": "passed"}')
$DEF

### json patched
import json
json.dumps = lambda *a, **k: '[3, 4]'
json.loads = lambda *a, **k: [3, 4]
$DEF

### builtins patched
import builtins
builtins.all = builtins.any = lambda *a: True
builtins.repr = lambda o: '[3, 4]'
builtins.isinstance = lambda *a: True
builtins.len = lambda o: 2
$DEF

### assert patched
import builtins
class A(Exception):
    def __new__(c, *a): return None
builtins.AssertionError = A
$DEF

### stdout replaced
import sys
class W:
    def write(self, t): pass
    def flush(self): pass
sys.stdout = W()
print(3)
$DEF

### infinite output
while True:
    print('3\nok')

### infinite output in the call
def f(xs):
    while True:
        print('ok' * 99)

### loop
while True:
    pass

### loop that catches
while True:
    try:
        while True: pass
    except BaseException: pass

### loop in the call
def f(xs):
    while True: pass

### thread left behind
import threading, time
def late():
    time.sleep(0.05)
    print('3\nok')
threading.Thread(target=late, daemon=True).start()
$DEF

### guard
if __name__ == '__main__':
    def f(xs):
        return [3]
else:
    def f(xs):
        return xs + [xs[0] + 1]

### reads stdin twice
import sys
a = sys.stdin.read()
b = sys.stdin.read()
print(b or a)
$DEF

### atexit
import atexit
atexit.register(lambda: print('ok'))
$DEF

### check redefined
def check(candidate):
    return True
def candidate(*a):
    return True
$DEF

### swallows
try:
    pass
except BaseException:
    pass
def f(xs):
    try:
        raise ValueError
    except BaseException:
        return True

### StopIteration
def f(xs):
    raise StopIteration

### GeneratorExit
def f(xs):
    raise GeneratorExit

### KeyboardInterrupt
def f(xs):
    raise KeyboardInterrupt

### frames
import sys
def f(xs):
    g = sys._getframe()
    while g:
        for v in list(g.f_locals.values()) + list(g.f_globals.values()):
            if isinstance(v, (list, tuple)) and len(v) == 2 and v != xs: return list(v)
            for name in ('expected', 'outputs', 'answers', 'written', 'value'):
                found = getattr(v, name, None)
                if isinstance(found, list): return found
        g = g.f_back
    return None

### frames, patched report
import sys
def f(xs):
    g = sys._getframe()
    while g:
        me = g.f_locals.get('self')
        if hasattr(me, 'canonical'):
            me.canonical = lambda v: 'True'
        g = g.f_back
    return 1

### forged frame
import os
for fd in range(3, 256):
    try: os.write(fd, b'\0' * 16 + b'R' + b'\0\0\0\2{}')
    except OSError: pass
$DEF

### gc
import gc
for o in gc.get_objects():
    if isinstance(o, dict) and 'outputs' in o: print(o['outputs'][0])
$DEF

### files
import os
for top, _, names in os.walk('/'):
    for n in names:
        if n.endswith(('.jsonl', '.parquet', '_test.py')):
            try: print(open(os.path.join(top, n)).read())
            except OSError: pass
    if len(top) > 12: break
$DEF

### environment
import os
print(os.environ)
$DEF

### argv
import sys
print(sys.argv, sys.path)
$DEF

### not a value
def f(xs):
    return lambda: 0

### generator
def f(xs):
    yield from xs + [xs[0] + 1]

### NotImplemented
def f(xs):
    return NotImplemented

### placeholder
def f(xs):
    return '<not known yet>'

### code as a value
def f(xs):
    return "__import__('os')._exit(0)"

### huge value
def f(xs):
    return 'x' * 100000

### long value, then a record of its own
import sys
def f(xs):
    g = sys._getframe()
    while g:
        me = g.f_locals.get('self')
        if hasattr(me, 'add_record'):
            me.add_record = lambda r, fields: fields.update(record='[1' * 9)
        if hasattr(me, 'report'):
            me.report = lambda: {'value': ['x']}
        g = g.f_back
    return 'x' * 20000

### deep value
def f(xs):
    for _ in range(500): xs = [xs]
    return xs

### cyclic value
def f(xs):
    xs.append(xs)
    return xs

### syntax error
def f(xs)
    return xs

### null byte
def f(xs):
    return xs$NUL

### memory
x = 'x' * 10**12
$DEF

### recursion
def f(xs):
    return f(xs)
f([1])

### no entry
def g(xs):
    return xs + [xs[0] + 1]

### entry is no function
f = [3, 4]

### mutates
def f(xs):
    xs.append(xs[0] + 1)

### empties
def f(xs):
    xs.clear()
    return xs

### counts calls
import builtins
builtins.n = getattr(builtins, 'n', 2) + 1
def f(xs):
    return [builtins.n, builtins.n]

"""

CHEATS = {
    name: program.strip("\n").replace("$DEF", DEF).replace("$NUL", "\0") + "\n"
    for name, program in re.findall(r"^### (.*)\n((?:(?!### ).*\n)*)", _TEXT, re.MULTILINE)
}
