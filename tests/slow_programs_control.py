"""Part of `slow_programs`: loops, managers, `finally`, exceptions, patterns."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {
    "targets of with that fail": """\
class M:
    def __init__(self, value, swallow):
        self.value, self.swallow = value, swallow
    def __enter__(self):
        return self.value
    def __exit__(self, kind, value, tb):
        log.append(kind and kind.__name__)
        return self.swallow
log = []
def f():
    with M(1, True) as (a, b):
        log.append('never')
    box = {}
    with M([1, 2], False) as box['x'], M((3, 4), True) as (a, *b):
        raise KeyError(a)
    try:
        with M(1, True), M(2, False) as box.attribute:
            pass
    except AttributeError:
        log.append('never')
    with (M(1, False) as a,
          M(2, False) as b):
        log.append(a + b)
    return log, box
""",
    "managers in loops": """\
class M:
    def __init__(self, name, swallow=False):
        self.name = name
        self.swallow = swallow
    def __enter__(self):
        out.append('in ' + self.name)
        return self
    def __exit__(self, *error):
        out.append('out ' + self.name)
        return self.swallow
out = []
def f():
    for i in range(4):
        with M('a'), M('b', True):
            if i == 0:
                continue
            if i == 1:
                raise ValueError(i)
            if i == 2:
                out.append(i)
            else:
                break
    while True:
        with M('c'):
            with M('d'):
                return out
""",
    "managers that raise": """\
class M:
    def __init__(self, where): self.where = where
    def __enter__(self):
        if self.where == 'enter': raise KeyError('enter')
        return self.where
    def __exit__(self, *error):
        if self.where == 'exit':
            raise LookupError('exit')
        return None
class NoExit:
    def __enter__(self): pass
def f():
    out = []
    for where in ('enter', 'exit', 'neither'):
        try:
            with M('neither') as outer, M(where) as inner:
                out.append((outer, inner))
                1 / (where != 'exit')
        except LookupError as error:
            out.append((str(error), type(error.__context__).__name__))
    try:
        with NoExit() as x: pass
    except (TypeError, AttributeError): out.append('no exit')
    try:
        with 5 as x: pass
    except (TypeError, AttributeError): out.append('no enter')
    return out
""",
    "finally decides": """\
def a():
    try:
        return note('a')
    finally:
        return note('A')
def b():
    while True:
        try:
            1 / 0
        finally:
            break
    return note('b')
def c(n):
    for i in range(n):
        try:
            if i == 1:
                return note('c')
            raise ValueError(i)
        except ValueError:
            continue
        finally:
            note(i)
    else:
        note('else')
def d():
    try:
        try:
            raise KeyError
        finally:
            note('inner')
    except KeyError:
        return note('d')
    finally:
        try:
            note('outer')
        finally:
            note('last')
def e():
    for i in range(3):
        try:
            continue
        finally:
            if i == 1:
                break
    else:
        note('never')
    try:
        pass
    finally:
        pass
    return i
log = []
def note(x):
    log.append(x)
    return x
def f():
    return a(), b(), c(1), c(3), d(), e(), log
""",
    "iterators of the program": """\
class Count:
    def __init__(self, n, bad=-1):
        self.n, self.bad = n, bad
    def __iter__(self):
        self.i = 0
        return self
    def __next__(self):
        self.i += 1
        if self.i == self.bad:
            raise ValueError('bad')
        if self.i > self.n:
            raise StopIteration
        return self.i
class Old:
    def __getitem__(self, i):
        if i > 2: raise IndexError
        return i * 10
class NotIterable:
    def __iter__(self):
        raise TypeError('no')
def f():
    out = []
    for x in Count(2): out.append(x)
    else: out.append('end')
    for x in Old():
        if x == 10: continue
        out.append(x)
    try:
        for x in Count(3, 2):
            out.append(x)
        else:
            out.append('never')
    except ValueError as error:
        out.append(error.args)
    try:
        for x in NotIterable(): pass
    except TypeError: out.append('no')
    try:
        for a, b in [(1, 2), (3,)]:
            out.append(a + b)
    except ValueError: out.append(a)
    a, *b = Count(3)
    out += [a, b, *Count(1), max(Count(4)), list(zip(Count(2), Old())), 2 in Count(3), sum(Old())]
    first, second = Count(2)
    for out[0] in Count(2): pass
    for i in iter([1, 2].pop, 1): out.append(i)
    return out, first, second
""",
    "conditions that call": """\
class Truth:
    def __init__(self, value): self.value = value
    def __bool__(self):
        seen.append(self.value)
        if self.value is None: raise ValueError('neither')
        return self.value
    def __lt__(self, other):
        return Truth(self.value and other.value)
    def __len__(self): return 0
class Sized:
    def __init__(self, n): self.n = n
    def __len__(self):
        return self.n
seen = []
def f():
    yes, no, bad = Truth(True), Truth(False), Truth(None)
    if yes and no or yes: seen.append(1)
    elif bad: seen.append(2)
    if not no: seen.append(3)
    if yes < yes < no: seen.append(4)
    else: seen.append(5)
    n = Sized(2)
    while n:
        n.n -= 1
    else: seen.append('done')
    x = 1 if no else 2 if yes else 3
    try:
        while bad: pass
    except ValueError: seen.append('bad')
    try:
        assert bad or x
    except ValueError: seen.append('worse')
    try: assert no, len(seen)
    except AssertionError as error: seen.append(error.args)
    filtered = [t for t in (yes, no) if t if not no]
    seen.append([bool(x) for x in (0, Sized(0))])
    return seen, x, len(filtered)
""",
    "loops and else": """\
def search(xs, wanted):
    for i, x in enumerate(xs):
        if x == wanted:
            break
        elif x < 0:
            continue
        for y in range(x):
            if y == 2: break
        else:
            continue
        break
    else:
        return None
    return i
def changes():
    xs = [1, 2, 3]
    for x in xs:
        if x == 2: xs.remove(x)
        if len(xs) < 6: xs.append(x + 1)
    d = {1: 1}
    try:
        for k in d: d[k + 1] = 1
    except RuntimeError: xs.append('changed')
    s = 0
    while True:
        s += 1
        if s % 2: continue
        while s < 10:
            s += 3
            if s == 8: break
        else:
            s -= 1
            continue
        if s > 7: break
    for i in range(3): pass
    for i in reversed(xs): i = 0
    return xs, s, i
def f():
    return search([5, -1, 7], 7), search([1, -1], 9), search([], 0), search([1, 2, 3], 3), changes()
""",
    "match": """\
class Point:
    __match_args__ = 'x', 'y'
    def __init__(self, x, y): self.x, self._y = x, y
    @property
    def y(self):
        return self._y
class Eq:
    def __eq__(self, other): return other == 'eq'
class NS: value = 3; eq = Eq()
def guard(x):
    log.append(x)
    if x == 'bad': raise ValueError
    return x
log = []
def kind(v):
    match v:
        case 0 | 1 | -1: return 'small'
        case NS.value: return 'ns'
        case True | None: return 'single'
        case str() as s if len(s) > 5: return s
        case 'a' 'b' | b'c': pass
        case float(real=r): return r
        case int(n) if guard(n) > 100:
            return 'big'
        case [] | [_]: return 'short'
        case [1, *rest, 9]: return rest
        case [Point(x=1), *_]: return 'points'
        case [a, [b, c]]: return a + b + c
        case (_, _, *others): return len(others)
        case {'k': w, 'l': [x, *_], **more}: return w, x, more
        case {'k': _}: return 'k'
        case {}: return 'mapping'
        case Point(0, y): return y
        case Point(x, y=z) if x == z: return 'same'
        case NS.eq: return 'eq'
        case set() | frozenset():
            return 'set'
        case x if guard(x): return 'guarded'
    return 'after', v
def f():
    values = [1, 3, True, None, 'abcdefg', 'ab', 1.5, 101, 50, [], (2,), [1, 2, 3, 9], [Point(1, 2), 0]]
    values += [[1, (2, 3)], [4, 5, 6, 7], {'k': 1, 'l': 'no'}, {'k': 1, 'l': (2, 3), 'm': 4}, {}, Point(0, 8)]
    values += [Point(5, 5), Point(6, 7), 'eq', {1}, 'good', '', range(3), [[1], 2]]
    out = [kind(v) for v in values]
    try: kind('bad')
    except ValueError: out.append(log)
    try:
        match 5:
            case int(1, 2): pass
    except TypeError: out.append('too many')
    match 1, 2:
        case x, y: note: int
    match {}:
        case {'never': 1}: pass
    match (yes := [1]):
        case list((one,)): out += [one]
    return [str(o)[:12] for o in out], x, y, yes
""",
    "exceptions on their way": """\
class Bad(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code
    def __str__(self): return f'<{self.code}>'
def thrower(n):
    if n == 0: raise Bad(0)
    if n == 1: raise ValueError('one') from Bad(1)
    if n == 2: raise KeyError
    if n == 3:
        try: thrower(0)
        except Bad as b: raise LookupError('three') from None
    if n == 4:
        try:
            return {}['x']
        except KeyError:
            raise
        finally:
            log.append('finally')
    if n == 5: return int('x')
    try:
        thrower(n - 3)
    except (Bad, ValueError) as error:
        error.code = n
        raise error
    else: log.append('else')
log = []
def which():
    log.append('which')
    return ValueError
def f():
    out = []
    for n in range(8):
        try:
            thrower(n)
        except Bad as error:
            out.append((n, str(error)))
        except which() as error:
            cause = error.__cause__
            out.append((n, str(error), cause and str(cause)))
        except (KeyError, IndexError):
            out.append(n)
        except LookupError as e:
            out.append((str(e), e.__cause__, str(e.__context__), e.__suppress_context__))
        else:
            out.append('else')
        finally:
            log.append(n)
    try: error
    except NameError: out.append('gone')
    try:
        try: raise Bad(9)
        except Bad as x: del x; 1 / 0
    except ArithmeticError as y: out.append(str(y.__context__)); z = y
    try: raise 5
    except TypeError: pass
    try:
        try: thrower(0)
        except 5: pass
    except TypeError as t: out.append(type(t.__context__).__name__)
    try: raise
    except RuntimeError: pass
    def again():
        try: raise Bad('a')
        except Bad: helper()
    def helper(): raise
    try: again()
    except Exception as e: out.append(e.code)
    return out, log
""",
    "exceptions in odd places": """\
def bad(*args):
    raise ValueError(*args)
def f():
    count = 0
    try:
        x = [bad(i) if i else i for i in range(2)]
    except ValueError as e: count += e.args[0]
    try: bad(bad(1))
    except ValueError: count += 1
    try: lambda: bad(); (lambda: bad())()
    except ValueError: count += 1
    try:
        def g(a=bad()): pass
    except ValueError: count += 1
    try:
        class A(bad()): pass
    except ValueError: count += 1
    try:
        @bad
        class B: x = 1
    except ValueError: count += 1
    try:
        while bad(): pass
        else: pass
    except ValueError: count += 1
    try:
        if count and bad(): pass
        elif True: count = 100
    except ValueError: count += 1
    try:
        for i in bad(): pass
    except ValueError: count += 1
    try:
        for d['x'] in [1]: pass
    except NameError: count += 1
    try:
        match bad():
            case _: pass
    except ValueError: count += 1
    try: return bad()
    except ValueError: count += 1
    try: raise bad()
    except ValueError: count += 1
    try: assert False, bad()
    except ValueError: count += 1
    try: del bad()[0]
    except ValueError: count += 1
    try: bad().x = bad(1)
    except ValueError as e: count += len(e.args)
    try: count += bad()
    except ValueError: count += 1
    try:
        import no_such_module_here
    except ImportError: count += 1
    try: from math import no_such_name
    except ImportError: count += 1
    try: x: int = bad()
    except ValueError: count += 1
    try:
        with bad() as x: pass
    except ValueError: count += 1
    try: f'{bad()}'; f'{1:{bad()}}'
    except ValueError: count += 1
    try: print(*bad())
    except ValueError: count += 1
    try: {1: 2, **bad()}; {**5}
    except ValueError: count += 1
    try: sorted([2, 1], key=bad)
    except ValueError: count += 1
    return count
""",
    "entry raises through everything": """\
class M:
    def __enter__(self): return self
    def __exit__(self, *error): log.append(1)
log = []
def g():
    try:
        yield 1
    finally:
        log.append(2)
def h():
    for x in g():
        with M():
            try:
                raise KeyError(x)
            except ValueError:
                log.append('never')
            else:
                log.append('never')
            finally:
                log.append(3)
def f():
    source = g()
    next(source)
    try:
        source.throw(ValueError)
    except ValueError: pass
    try:
        1 / 0
    except ZeroDivisionError:
        try: log.append(4)
        finally:
            [][1]
""",
    "recursion with handlers": """\
def f(n=3):
    try:
        return f(n - 1) if n else 1 / n
    except ZeroDivisionError as e:
        x = n
        raise ValueError(n) from e
    except ValueError:
        return -1
    finally:
        n = 100
""",
    "exits": """\
import sys
def g(n):
    try:
        if n: sys.exit(n)
        yield n
    finally:
        log.append(n)
log = []
def f():
    list(g(0))
    try:
        list(g(1))
    except SystemExit as e:
        log.append(e.code)
    with M(): list(g(2))
class M:
    def __enter__(self): pass
    def __exit__(self, kind, *rest):
        log.append(kind is SystemExit)
""",
}
