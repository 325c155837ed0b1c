"""Part of `slow_programs`: names, layout, values, and statements that hardly do anything."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {
    "closures": """\
def counter(start):
    n = start
    def up(by=1):
        nonlocal n
        n += by
        return n
    def down():
        nonlocal n
        n -= 1
        def inner():
            return n
        return inner()
    return up, down
def late():
    return [lambda: i for i in range(3)], [(lambda j=j: j) for j in range(2)]
def outer(x):
    def middle():
        def inner():
            return x
        return inner
    x = x + 1
    return middle()()
level = 0
def deep(n):
    global level, made
    level = max(level, n)
    made = n
    if n < 3:
        return deep(n + 1)
    return lambda: n
def unbound(flag):
    if flag:
        y = 1
    def show(): return y
    try:
        return show()
    except NameError as error:
        return type(error).__name__
def f():
    up, down = counter(5)
    a = up(), up(by=3), down()
    b = [g() for g in late()[0]], [g() for g in late()[1]]
    def rec(n): return n and n + rec(n - 1)
    c = outer(1), deep(0)(), level, made, rec(3)
    try:
        x += 1
        x = 0
    except UnboundLocalError: x = 'unbound'
    del x
    try: x
    except NameError: x = 1
    return a, b, c, x, unbound(True), unbound(False)
""",
    "deletion, stars and walrus": """\
class Box: pass
def f():
    box, xs, d = Box(), [1, 2, 3, 4], {'a': 1, 'b': 2}
    box.x = box.y = 1
    del xs[0], box.x, d['a']
    del (box.y, [xs[-1]])
    a, (b, *c), *d['rest'] = 1, 'xyz', 3, 4
    [e, f_], g = (5, 6), 7
    (h,) = xs[:1]
    i = j = [k] = [8]
    xs[0], xs[1] = xs[1], xs[0]
    xs[len(xs):] = a, b
    if (n := len(xs)) > 3: n *= 2
    while (m := n - 1) > 5: n = m
    pairs = [(q, last := q) for q in range(3) if (r := q % 2)]
    total = 0
    *_, last_one = (x for x in 'abc')
    try: a, b = 1, 2, 3
    except ValueError: total += 1
    try: a, b, *c = [1]
    except ValueError as error: total += len(error.args)
    try: del undefined
    except NameError: total += 1
    for x.real in (): pass
    else: del total
    t = 1,
    u = *t, *'ab'
    print(*u, sep='-')
    return locals()
x = Box
""",
    "several statements on a line": """\
def f():
    a = 1; b = 2; c = a + b
    if a: a = 2; b = 3
    else: pass; pass
    for i in range(2): a += i; b += 1
    while a > 0: a -= 2; continue
    def g(x): y = x; return y
    class K: p = 1; q = p; r: int
    try: a = 1; 1 / 0; b = 2
    except ZeroDivisionError: a = 5; b = 6
    else: c = 0
    finally: c = 1; c += 1
    with K2(): a = 7; b = 8
    def h(): return 1
    if g(a): b = g(b); c = h()
    x = lambda: g(1); y = x(); return y, a, b, c
class K2:
    def __enter__(self): return
    def __exit__(self, *e): return
""",
    "statements over several lines": """\
def f(
    a=1,
    b=(
        2
    ),
):
    c = (
        a
        + b
    ); d = [
        i
        for i in range(3)
        if i
        != 1
    ]
    if (
        a
        and b
    ):
        e = '''x
        y'''
    elif (a or
          b):
        e = 2
    for i in (
        1,
        2,
    ):
        a += \\
            i
    while (
        a
        > 3
    ): a -= (
        1)
    with open_(
        a
    ) as g, \\
         open_(b):
        pass
    try: h = d[
        5
    ]
    except (
        IndexError,
        KeyError,
    ) as error: h = str(
        error
    )
    def k(
        x,
    ): return (
        x
    )
    assert (a,
            b), (
        'message'
    )
    return k(
        a
    ), b, c, d, e, g, h, (lambda x:
        x + 1)(1)
class open_:
    def __init__(self, x): self.x = x
    def __enter__(self):
        return (
            self.x
        )
    def __exit__(self, *e): pass
""",
    "constants and code that never runs": """\
def a():
    return 1
    return 2
def b():
    while 1:
        if False: never()
        elif 0: never()
        else: break
    while False: never()
    else: x = 1
    if True: x += 1
    if not None: x += 1
    if __debug__: x += 1
    if 1 and 0: never()
    if 0 or x: pass
    assert True
    assert 1, never()
    for i in (): never()
    else: pass
    for i in []: never()
    ...
    None
    'text'
    b'bytes'
    f'{x}'
    1 + 1
    x
    -x
    (1, 2)
    lambda: never()
    [i for i in ()]
    x = 3 if 1 else never()
    return x
def c():
    '''only a docstring'''
def d():
    f'not a docstring'
def e():
    b'not a docstring'
    pass
class G:
    '''doc'''
    'not doc'
    1
def g():
    raise ValueError
    yield
def h():
    if 0:
        yield
    return 5
def i():
    pass; pass
    return
def j():
    global late
    late = 1
def f():
    try: next(g())
    except ValueError: pass
    for _ in h(): never()
    class H: 'doc'
    class I: pass
    class J: ...
    return a(), b(), c(), d(), e(), i(), j(), G.__doc__, H.__doc__, list(h())
""",
    "annotations": """\
def note(x):
    log.append(x)
    return int
log = []
class Box: pass
def f():
    x: note('never') = 1
    y: note('never')
    box = Box()
    box.z: note('never') = 2
    box.w: note('never')
    (p): int = 3
    xs = [0]
    xs[0]: int = 4
    class K:
        a: note('a') = 1
        b: note('b')
        def m(self): self.c: int = note('c'); self.d: int
        if a: e: note('e')
    K().m()
    try: y
    except NameError: y = 5
    return x, y, box.z, p, xs, sorted(K.__annotations__), log
""",
    "comprehensions that call": """\
log = []
def note(x):
    log.append(x)
    return x
def make(n): return [note(i) for i in range(n)]
def f():
    a = [note(x) + y for x in make(2) for y in range(note(x)) if note(y) == 0]
    b = {note(k): note(v) for k, v in zip('ab', make(2))}
    c = {note(x) % 2 for x in range(3)}
    d = (note(x) for x in make(1))
    log.append('lazy')
    e = [*d], [[note(j) for j in range(i)] for i in range(3)]
    g = sum((note(x) for x in (1, 2)), start=note(10))
    h = [(lambda: note(i))() for i in range(2)]
    x = 'outer'
    i = [x for x in 'in'], x
    j = [y := note(1), y ** 2], [z for q in 'ab' if (z := q * 2)], z
    try: [note(1 / k) for k in (1, 0)]
    except ZeroDivisionError: pass
    k = next((n for n in range(9) if note(n) > 1), None)
    l = all(note(n) for n in [1, 0, 1]), any(map(note, [0, 1]))
    return a, b, c, e, g, h, i, j, k, l, len(log)
""",
    "augmented assignment": """\
class Cell:
    def __init__(self, v): self.v = v
    def __iadd__(self, o):
        self.v += o
        return self
    def __add__(self, o): return Cell(self.v + o)
class Row:
    def __init__(self): self.d = {}
    def __getitem__(self, k):
        return self.d.get(k, 0)
    def __setitem__(self, k, v):
        self.d[k] = v
def where(k):
    order.append(k)
    return k
order = []
class Frozen:
    def __setattr__(self, name, value): raise AttributeError
def f():
    c = d = Cell(1)
    c += 2
    c = c + 1
    r = Row()
    r[where('a')] += where(1)
    r[where('b')] -= len(order)
    n = 7
    n //= 2; n **= 2; n <<= 1; n |= 1; n ^= 3; n &= 30; n %= 7; n >>= 1
    n /= 2
    t = ([1],)
    try: t[0] += [2]
    except TypeError: order.append(t)
    frozen = Frozen()
    try: frozen.x += 1
    except AttributeError: pass
    try: missing += where(3)
    except NameError: missing = 0
    xs = ys = []
    xs += 'ab'
    ys *= 2
    s = {1}; s |= {2}; s -= {1}
    return c.v, d.v, r.d, n, t, xs, s, order
""",
    "imports and eval": """\
import os.path as p, sys
from collections import OrderedDict as OD, Counter
def f():
    import math, json as j
    from itertools import chain, count as c
    import os.path
    import xml.dom
    a = [*chain([1], [2])], next(c(3)), math.floor(2.5), j.dumps({'a': 1})
    b = eval('a[0]'), eval('g(2)'), eval('sum(x for x in a[0])')
    space = {}
    exec('def h(x):\\n    y = x + 1\\n    return y', space)
    d = space['h'](1), os.path.basename('x/y'), p.basename('a/b'), OD(a=1), Counter('aab')
    e = sorted(globals())[:1], 'f' in globals(), 'a' in locals(), vars() == locals(), len(dir()) > 2
    return a, b, d, e
def g(x):
    return x * 2
""",
    "mangled names": """\
class A:
    __count = 0
    def __init__(self, __x):
        self.__x = __x
        A.__count += 1
        for __i in range(__x): self.__x += __i
    def __get(self): return self.__x
    def get(self):
        __local = self.__get()
        def __inner(): return __local
        class __B:
            __y = 1
            def y(self): return self.__y
        try: raise ValueError
        except ValueError as __error: pass
        return __inner(), __B().y(), __B.__name__, self.__count
    __dunder__ = 1
class _C:
    def m(self): self.__z = 1; return sorted(vars(self))
def f():
    a = A(3)
    return a.get(), a._A__x, A._A__count, _C().m(), a.__dunder__
""",
    "nested functions and names": """\
def f():
    x = 1
    def g():
        x = 2
        def h():
            nonlocal x
            x += 1
            def i():
                global x
                x = 10
                return x
            return i() + x
        return h() + x
    class K:
        x = 3
        y = [x for _ in range(2)]
        def m(self): return x
        z = x
    def default(a=x, *, b=[x]): return a, b
    x = 4
    lam = lambda a, b=x: (a, b, x)
    def shadow(len): return len
    def rec(n): return rec(n - 1) if n else K.z
    return g(), K.y, K().m(), default(), lam(1), shadow(5), rec(2), globals()['x']
""",
    "shared objects change from outside": """\
class Node:
    def __init__(self, v, next=None): self.v, self.next = v, next
    def __iter__(self):
        node = self
        while node:
            yield node.v
            node = node.next
def reverse(node):
    before = None
    while node:
        node.next, before, node = before, node, node.next
    return before
def fill(grid, r, c):
    if not (0 <= r < len(grid) and 0 <= c < len(grid[0])) or grid[r][c]: return 0
    grid[r][c] = 2
    return 1 + sum(fill(grid, r + a, c + b) for a, b in ((0, 1), (1, 0)))
def alias(xs, ys):
    xs.append(1)
    ys = ys + [2]
    xs[0] = ys
    return xs
def f():
    lst = Node(1, Node(2, Node(3)))
    back = list(reverse(lst))
    grid = [[0, 1], [0, 0]]
    n = fill(grid, 0, 0)
    rows = [[0] * 2] * 2
    rows[0][1] = 5
    xs = [0]
    alias(xs, xs)
    s = {1, 2}
    t = s
    t.add(3)
    d = {'a': xs}
    d['a'].clear()
    return back, n, grid, rows, xs, s, d
""",
    "sets, dicts and texts": """\
def f():
    words = 'the cat and the hat'.split()
    count = {}
    for w in words:
        count[w] = count.get(w, 0) + 1
    order = []
    for x in {3, 1, 2}: order.append(x)
    for y in {'a', 'b', 'c'}: order.append(len(y))
    best = max(count, key=count.get)
    inverse = {}
    for k, v in sorted(count.items(), key=lambda kv: (-kv[1], kv[0])):
        inverse.setdefault(v, []).append(k)
    text = ''
    for ch in reversed(best):
        text += ch.upper() if ch > 'h' else ch
    table = str.maketrans({'t': 'T'})
    merged = {**count, 'x': 1} | {'y': 2}
    b = bytearray(b'ab')
    b[0] += 1
    c = 1 + 2j
    c *= 2
    big = 2 ** 100
    nan = float('nan')
    texts = f'{best!r:>6}|{3.14159:.2f}|{10:#x}', text.translate(table)
    return order, inverse, texts, merged, b, c, big, nan == nan
""",
    "functions made in a loop": """\
def f():
    made = []
    for i in range(3):
        def g(i=i): return i
        class K: v = i
        try:
            if i: raise ValueError(i)
        except ValueError as e:
            message = str(e)
            continue
        finally:
            z = g()
        made.append(g)
    return z, message, K.v, made[0]()
""",
    "columns are bytes": """\
def f():
    é = 1; b = 2; ü = é + b
    s = 'ä'; t = [x for x in s]; return t, ü
""",
    "names through several functions": """\
def f():
    x = 1
    def g():
        y = [x for _ in range(2)]
        def h():
            return x, y
        z = [(lambda: x)() for q in y]
        class K:
            w = [x]
            def m(self):
                return x, __class__
        K().m()
        return h(), z
    x += 1
    T = int
    def annotated():
        v: T = 1
        return v
    return g(), annotated()
""",
}
