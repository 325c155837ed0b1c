"""Part of `slow_programs`: functions, generators, classes, and what is called behind the scenes."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {
    "operators of the program": """\
class V:
    def __init__(self, *items): self.items = list(items)
    def __add__(self, other): return V(*self.items, *other.items)
    def __radd__(self, other):
        return V(other, *self.items)
    def __iadd__(self, other):
        self.items += [other]
        return self
    def __getitem__(self, i):
        if isinstance(i, slice):
            return V(*self.items[i])
        return self.items[i]
    def __setitem__(self, i, value):
        self.items[i] = value
    def __delitem__(self, i): del self.items[i]
    def __contains__(self, x): return x in self.items
    def __eq__(self, other): return isinstance(other, V) and self.items == other.items
    def __hash__(self): return hash(tuple(self.items))
    def __neg__(self): return V(*reversed(self.items))
    def __call__(self, *args, **named):
        return len(args), named
    def __format__(self, spec): return '<' + spec + '>'
    def __repr__(self): return 'V'
    def __index__(self): return self.items[0]
    def __matmul__(self, other): return 5
    def __getattr__(self, name):
        if name == 'missing': raise AttributeError(name)
        return name * 2
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
def f():
    a = V(1, 2)
    b = a + V(3)
    b += 4
    c = 0 + b
    c[0] += 5
    c[1:] = [7]
    del c[0], b[0]
    d = {a: 1, V(1, 2): 2}
    s = {V(1), V(1), V(2)}
    e = [10, 20, 30][a]
    texts = f'{a!r:>3} {b:x{e}} {c}', '%s' % a, str(a)
    try: a.missing
    except AttributeError: pass
    a.other = 1
    return (-b).items, c[0:1].items, len(d), len(s), 1 in a, a(1, *b.items, k=2), texts, a @ b, a.y, a != b
""",
    "attributes of the program": """\
import functools
log = []
class D:
    def __set_name__(self, owner, name): log.append((owner.__name__, name))
    def __get__(self, obj, kind=None):
        return 'class' if obj is None else obj.__dict__.get('d', 'none')
    def __set__(self, obj, value):
        log.append(value)
        obj.__dict__['d'] = value
    def __delete__(self, obj):
        del obj.__dict__['d']
class P:
    d = D()
    count = 0
    @property
    def size(self):
        return self.count
    @size.setter
    def size(self, value):
        if value < 0:
            raise ValueError
        self.count = value
    @size.deleter
    def size(self):
        self.count = -1
    @classmethod
    def make(cls, *args):
        return cls(*args)
    @staticmethod
    def twice(x): return x * 2
    @functools.cached_property
    def once(self):
        log.append('once')
        return 1
def f():
    p = P.make()
    p.d = P.twice(3)
    x = p.d, P.d
    del p.d
    p.size = 3
    p.size += 1
    try: p.size = -1
    except ValueError: p.count = p.size * 2
    y = p.size
    del p.size
    z = p.once + p.once
    getattr(p, 'size'), setattr(p, 'd', 1), hasattr(p, 'nothing')
    return x, y, z, log, sorted(vars(p))
""",
    "C code calls back": """\
import functools, itertools, operator
def key(x):
    return -x
def odd(x):
    if x % 2: return True
    return False
def add(a, b):
    c = a + b
    return c
def compare(a, b): return (a > b) - (a < b)
@functools.lru_cache(maxsize=None)
def fib(n):
    if n < 2: return n
    return fib(n - 1) + fib(n - 2)
def f():
    xs = sorted([3, 1, 2], key=key)
    xs.sort(key=functools.cmp_to_key(compare))
    lazy = map(add, xs, filter(odd, range(9)))
    first = next(lazy)
    total = functools.reduce(add, lazy, first)
    m = max(xs, key=lambda x: key(x) % 2)
    groups = [(k, list(g)) for k, g in itertools.groupby([1, 3, 2], odd)]
    found = list(itertools.takewhile(odd, [1, 2, 3])), any(odd(x) for x in [2, 4, 5, 6])
    part = functools.partial(add, 1)(b=2)
    d = dict.fromkeys('ab', fib(4))
    try:
        list(map(add, [1], ['a']))
    except TypeError: total += 1
    return xs, total, m, groups, found, part, d, list(starred(2))
def starred(n):
    yield from map(add, range(n), itertools.count())
""",
    "generators driven by hand": """\
def g(n):
    total = 0
    try:
        while True:
            try:
                got = yield total
                total += got if got else n
            except ValueError as error:
                total = -len(error.args)
                yield 'caught'
    except KeyError:
        return 'key'
    finally:
        log.append(total)
def once():
    x = (yield 1) or (yield 2)
    return [x, (yield)]
def ends():
    raise StopIteration(1)
    yield
log = []
def f():
    a = g(5)
    out = [next(a), a.send(2), next(a), a.throw(ValueError('x', 'y')), next(a), a.send(1)]
    try:
        a.throw(KeyError)
    except StopIteration as stop:
        out.append(stop.value)
    b = g(1)
    next(b)
    b.close()
    b.close()
    c = once()
    out += [next(c), c.send(None), c.send(3)]
    try: c.send(4)
    except StopIteration as stop: out += stop.value
    try: next(ends())
    except RuntimeError as error: out.append(type(error.__cause__).__name__)
    d = g(2)
    try: d.send(1)
    except TypeError: out.append('not begun')
    d.close()
    return out, log, next(d, 'over')
""",
    "generators in generators": """\
def leaves(tree):
    for item in tree:
        if isinstance(item, list):
            yield from leaves(item)
        else:
            yield item
def relay(source, log):
    try:
        result = yield from source
        log.append(result)
    except ValueError:
        log.append('relay')
        yield 'instead'
    finally:
        log.append('end')
def inner(log):
    try:
        x = yield 1
        log.append(x)
        yield 2
    except KeyError:
        log.append('key')
        return 'returned'
    return 'normal'
class Plain:
    def __iter__(self): return self
    def __next__(self): return 7
    # No frame: whether the waiting generator counts as its caller differs between `close` and `throw`.
    close = lambda self: closed.append(1)
closed = []
def f():
    log = []
    flat = list(leaves([1, [2, [3]], []]))
    a = relay(inner(log), log)
    b = [next(a), a.send('sent')]
    try: a.throw(KeyError)
    except StopIteration: log.append('stopped')
    c = relay(inner(log), log)
    next(c)
    b.append(c.throw(ValueError))
    c.close()
    d = relay(Plain(), log)
    b += [next(d), next(d)]
    d.close()
    e = relay(Plain(), log)
    next(e)
    try: e.throw(KeyError)
    except KeyError: log.append('plain')
    depth = relay(relay(inner(log), log), log)
    b += list(depth)
    return flat, b, log, closed
""",
    "generators interleaved with loops": """\
def evens(limit):
    n = 0
    while n < limit:
        yield n
        n += 2
def squares(source):
    for x in source:
        y = x * x
        yield y
def pairs(xs):
    it = iter(xs)
    for a in it:
        b = next(it, None)
        yield a, b
def walk(n):
    if n:
        yield from walk(n - 1)
        yield n
        yield from walk(n - 1)
def f():
    out = []
    for s in squares(evens(5)):
        out.append(s)
    for (a, b), c in zip(pairs('abc'), [*walk(2)]):
        out += [a, b, c]
    out.append(sum(x for x in squares(evens(4)) if x))
    lazy = (half(x) for x in evens(6))
    out.append(next(lazy))
    out += lazy
    a, b, *c = walk(2)
    return out, a, b, c, [*squares([2])], dict(pairs('ab')), max(walk(2)), 2 in [*evens(5)]
def half(x):
    return x / 2
""",
    "managers and generators": """\
import contextlib
@contextlib.contextmanager
def tag(name):
    log.append('<' + name)
    try:
        yield name.upper()
    except KeyError:
        log.append('key')
    finally:
        log.append(name + '>')
class Lock:
    def __enter__(self):
        log.append('lock')
    def __exit__(self, *error):
        log.append('unlock')
def held():
    with Lock():
        for i in range(3):
            with Lock(): yield i
log = []
def f():
    with tag('a') as x, tag('b'):
        log.append(x)
        {}[1]
    with contextlib.ExitStack() as stack:
        stack.enter_context(tag('c'))
        stack.callback(note, 1)
        stack.push(lambda *error: note(2))
        stack.enter_context(Lock())
    g = held()
    next(g), next(g)
    g.close()
    with contextlib.closing(held()) as h, contextlib.suppress(StopIteration):
        while True: note(next(h))
    @tag('d')
    def inner(): return note('inner')
    return inner(), log
def note(x):
    log.append(x)
    return x
""",
    "class bodies": """\
def note(x):
    log.append(x)
    return x
log = []
def deco(cls):
    cls.extra = note('deco')
    return cls
class Space(dict): pass
class Meta(type):
    @classmethod
    def __prepare__(meta, name, bases, **more):
        note(name)
        return Space(prepared=1)
    def __new__(meta, name, bases, body, **more):
        cls = super().__new__(meta, name, bases, body)
        return cls
    def __init__(cls, name, bases, body, **more):
        super().__init__(name, bases, body)
    def __call__(cls, *args):
        note('call')
        return super().__call__(*args)
def f(n=2):
    @deco
    class A:
        '''doc'''
        total = 0
        for i in range(n):
            total += i
            if i: odd = True
        else:
            names = [name for name in ('a', 'b') if note(name)]
        del i
        note: int = 3
        bare: int
        def get(self, k=total): return k + self.total
        class Inner: value = n; other = value + 1
        while True: break
        try:
            x = undefined
        except NameError: x = 'none'
        with open_nothing() as y: pass
        lam = lambda self: note(self.x)
    class B(A, metaclass=Meta, key=note('kw')):
        total = 10
        def get(self):
            return super().get() + __class__.total
        def __init_subclass__(cls): note('sub')
    class C(B): pass
    try:
        class Broken(A):
            first = 1
            second = first / 0
            third = 3
    except ZeroDivisionError: note('broken')
    try: made = type('T', (A,), {'total': 4})().get()
    finally: pass
    second = C.__mro__[1].__name__
    return A().get(), B().get(), second, A.names, A.Inner.other, A().lam(), made, log, A.__doc__
class open_nothing:
    def __enter__(self): return 1
    def __exit__(self, *e): return
""",
    "classes of the library": """\
import abc, collections, dataclasses, enum, functools, typing
@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = dataclasses.field(default=0)
    tags: list = dataclasses.field(default_factory=list)
    def __post_init__(self):
        self.x *= 2
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    @property
    def pretty(self):
        return self.name.title()
    def __str__(self): return self.pretty
@functools.total_ordering
class Version:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return self.n == other.n
    def __lt__(self, other):
        return self.n < other.n
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
    def twice(self): return self.area() * 2
class Square(Shape):
    def __init__(self, s): self.s = s
    def area(self): return self.s ** 2
class Named(typing.NamedTuple):
    a: int
    b: str = 'b'
    def both(self): return self.a, self.b
class Default(dict):
    def __missing__(self, key):
        self[key] = key * 2
        return self[key]
@functools.singledispatch
def show(x): return 'any'
@show.register
def _(x: int): return 'int'
@show.register(list)
def _(x): return [show(i) for i in x]
def f():
    p = Point(1)
    q = dataclasses.replace(p, y=3)
    colors = [str(c) for c in Color], Color(2).pretty, Color.RED is Color['RED']
    v = Version(1) >= Version(2), max(Version(i) for i in range(2)).n
    try: Shape()
    except TypeError: pass
    d = Default()
    d['k'], d['k']
    counter = collections.defaultdict(lambda: note(0))
    counter['a'] += 1
    return p < q, q.x, colors, v, Square(2).twice(), Named(1).both(), d, counter['a'], show([1, 'a'])
def note(x):
    return x
""",
    "decorators and defaults": """\
import functools
log = []
def note(x):
    log.append(x)
    return x
def twice(g):
    @functools.wraps(g)
    def wrapper(*args, **named):
        g(*args, **named)
        return g(*args, **named)
    return wrapper
def tagged(tag):
    note(tag)
    def deco(g):
        note(g.__name__)
        def wrapper(*args):
            return tag, g(*args)
        return wrapper
    return deco
class Memo:
    def __init__(self, g): self.g, self.known = g, {}
    def __call__(self, n):
        if n not in self.known:
            self.known[n] = self.g(n)
        return self.known[n]
@Memo
def fact(n):
    return 1 if n < 2 else n * fact(n - 1)
def f():
    @twice
    @tagged(
        note('a')
    )
    def g(x, y=note('default'), *rest, k=note('kw'), **more): return note(x)
    def h(a: note('ann'), /, b: int = note(1), *, c: note('c') = note(2)) -> note('ret'):
        return a, b, c
    try:
        @note
        @(lambda g: g / 0)
        def broken(x=note('before')): pass
    except TypeError: pass
    def grows(x, acc=[]):
        acc.append(x)
        return acc
    grows(1)
    return g(1), h(1), h(1, 5, c=6), fact(4), grows(2), log, h.__annotations__, g.__name__
""",
    "arguments": """\
def note(x):
    log.append(x)
    return x
log = []
def every(a, /, b, *args, c=3, d, **named):
    '''doc'''
    locals_ = sorted(locals())
    return a, b, args, c, d, named, locals_
def none(): pass
def only_kw(*, a, b=2): return a, b
def f():
    xs, kw = [1, 2], {'d': 4}
    out = [every(*xs, d=1), every(note(1), b=note(2), **kw), every(*xs, *xs, c=5, **kw, e=6)]
    out.append(only_kw(b=1, **{'a': 2}))
    for call in (lambda: every(1), lambda: none(1), lambda: only_kw(1), lambda: every(1, 2, d=1, **kw)):
        try: call()
        except TypeError: out.append('refused')
    out.append(note(note)(note)(1) if note(0) else note('else'))
    out.append((lambda *a, k=note('kw'), **n: (a, k, n))(1, *[2], z=3))
    out.append(xs[note(0)] + xs[note(1):note(None)][0])
    print(*map(note, 'ab'), end=note(''), sep=note('-'))
    return out, log
""",
    "recursion": """\
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def ack(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ack(m - 1, 1)
    return ack(m - 1, ack(m, n - 1))
def hanoi(n, a, b, c, moves):
    if n:
        hanoi(n - 1, a, c, b, moves)
        moves.append((a, c))
        hanoi(n - 1, b, a, c, moves)
def permutations(xs):
    if len(xs) <= 1:
        yield xs
        return
    for i, x in enumerate(xs):
        for rest in permutations(xs[:i] + xs[i + 1:]):
            yield [x, *rest]
def queens(n, placed=()):
    if len(placed) == n:
        return 1
    return sum(
        queens(n, placed + (col,))
        for col in range(n)
        if all(col != c and abs(col - c) != len(placed) - r for r, c in enumerate(placed))
    )
def even(n): return True if n == 0 else odd(n - 1)
def odd(n):
    if n == 0:
        return False
    return even(n - 1)
def depth(tree, seen=None):
    seen = set() if seen is None else seen
    if not isinstance(tree, dict): return 0
    return 1 + max((depth(t, seen) for t in tree.values()), default=0)
def f():
    moves = []
    hanoi(2, 'a', 'b', 'c', moves)
    many = list(permutations([1, 2, 3]))
    return fib(5), ack(1, 2), moves, many, queens(4), even(3), depth({'a': {'b': 1}, 'c': {}})
""",
}
