"""Random programs that use the language at large, for laws over tracers.

Covers what programs of the grammar never write: managers that fail or swallow, targets that fail,
generators driven by hand, `finally` that decides, classes and decorators in functions, patterns,
closures, deletion. The same seed gives the same program. Every program ends: what could go on for
ever depends on `t`, which answers 0 once it has been called often. It may end with an exception.
"""

from __future__ import annotations

import random

PRELUDE = """\
class Out(Exception):
    pass
ticks = 0
def t(k):
    global ticks
    ticks += 1
    if ticks > 150: return 0
    if (ticks * 31 + k * 17) % 53 < 3:
        raise Out(k)
    return (ticks + k) % 3
class M:
    def __init__(self, k, gives=None): self.k, self.gives = k, gives
    def __enter__(self):
        t(self.k)
        return self if self.gives is None else self.gives
    def __exit__(self, kind, value, tb):
        log.append(self.k)
        return self.k % 2 == 0
class I:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        self.n -= 1
        if self.n < 0: raise StopIteration
        return t(self.n)
class V:
    __match_args__ = ('v',)
    def __init__(self, v): self.v = v
    def __add__(self, o):
        return V(self.v + t(o))
    def __iadd__(self, o):
        self.v += t(o); return self
    def __bool__(self): return t(self.v) > 0
    def __getitem__(self, k): return t(k) + self.v
    def __setitem__(self, k, x):
        self.v = x
    def __eq__(self, o):
        return t(self.v) == 1
    @property
    def p(self):
        return t(self.v) + 1
    @p.setter
    def p(self, x): self.v = t(x)
def deco(g):
    def wrapper(*a, **k):
        log.append('call')
        return g(*a, **k)
    return wrapper
log = []
"""


class Composer:
    """Writes one program; `program` gives its text, the entry is `f()`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.functions = self.random.randrange(1, 4)
        self.number = 0
        self.loops = 0
        self.generator = False
        self.names = ["a", "b", "c"]

    def program(self) -> str:
        for number in range(self.functions, -1, -1):
            self.number = number
            self.generator = number > 0 and self.random.random() < 0.5
            name = "f" if number == 0 else ("gen" if self.generator else "fun") + str(number)
            self.write(0, f"def {name}({'x=1' if number else ''}):")
            self.write(1, "a, b, c = 1, [2, 3], V(4)")
            self.body(1, 3)
            if self.generator:
                self.write(1, "yield a")
                self.write(0, f"def fun{number}(x=1):")
                self.write(1, f"return list(gen{number}(x))")
            else:
                self.write(1, "return a")
                self.write(0, f"def gen{number}(x=1):")
                self.write(1, f"yield from [1, fun{number}(x)]" if number else "yield")
        return PRELUDE + "\n".join(self.lines) + "\n"

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def body(self, depth: int, budget: int) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.statement(depth, budget)

    def k(self) -> str:
        return str(self.random.randrange(30))

    def call(self) -> str:
        """An expression that runs steps of its own."""
        later = list(range(self.number + 1, self.functions + 1))
        options = [
            f"t({self.k()})",
            f"t({self.k()})",
            "c.p",
            f"c[{self.k()}]",
            f"(c + {self.k()}).v",
        ]
        if later:
            other = self.random.choice(later)
            options += [f"fun{other}({self.k()})", f"len(fun{other}() or 'x')", f"[*gen{other}()]"]
        return self.random.choice(options).replace("len(fun", "len(str(fun").replace(" or 'x'", ")")

    def test(self) -> str:
        call = self.call()
        shapes = [
            call,
            f"not {call}",
            f"{call} and {self.call()}",
            f"{self.k()} < t(3) < t(2)",
            "c",
        ]
        return self.random.choice(shapes)

    def target(self) -> str:
        targets = [
            "a",
            "a",
            "d",
            "b[0]",
            "c.p",
            f"c[t({self.k()})]",
            "(a, d)",
            "[a, *b]",
            "c.other",
        ]
        return self.random.choice(targets)

    def statement(self, depth: int, budget: int) -> None:
        kinds = [
            "assign",
            "assign",
            "call",
            "call",
            "aug",
            "simple",
            "comprehension",
            "local",
            "drive",
        ]
        if self.loops:
            kinds += ["leave", "leave"]
        if self.generator:
            kinds += ["suspend", "suspend", "suspend"]
        if budget and len(self.lines) < 90:
            kinds += ["if", "while", "for", "for", "try", "try", "try", "with", "with", "match"]
            kinds += ["function", "klass"]
        getattr(self, "write_" + self.random.choice(kinds))(depth, budget - 1)

    # Simple statements

    def write_assign(self, depth: int, budget: int) -> None:
        values = [self.call(), f"a = {self.call()}", f"[{self.call()}, {self.k()}]", "b", "'xy'"]
        self.write(depth, f"{self.target()} = {self.random.choice(values)}")

    def write_call(self, depth: int, budget: int) -> None:
        call = self.call()
        shapes = [call, f"log.append({call})", f"log.append(\n{'    ' * (depth + 1)}{call})"]
        shapes += [f"print({call}, end={self.call()!r})", f"(lambda: {call})()", f"f'{{{call}}}'"]
        self.write(
            depth, self.random.choice(shapes).replace('end="', 'end=str("').replace("'t(", "'t(")
        )

    def write_aug(self, depth: int, budget: int) -> None:
        self.write(depth, self.random.choice(["a", "b[0]", "c", "c.v", f"c[{self.k()}]", "e"]))
        self.lines[-1] += f" += t({self.k()})"

    def write_simple(self, depth: int, budget: int) -> None:
        choices = [
            "pass",
            "...",
            "note: int",
            "'text'",
            "q: int = " + self.call(),
            "del b[0]",
            "d = 1; del d",
        ]
        choices += [
            f"raise Out({self.call()})",
            f"assert {self.test()}, {self.k()}",
            "del d",
            "a.x",
            "raise",
        ]
        choices += [
            f"a = {self.call()}; d = {self.call()}",
            f"if {self.call()}: a = {self.call()}; pass",
        ]
        choices += [
            f"return {self.call()}",
            "return",
            f"d = e = {self.k()}",
            "raise KeyError from Out(1)",
        ]
        self.write(depth, self.random.choice(choices))

    def write_comprehension(self, depth: int, budget: int) -> None:
        call = self.call()
        choices = [
            f"[{call} for i in range(2) if t(i)]",
            f"{{i: {call} for i in I(2)}}",
            f"{{{call}, *b}}",
        ]
        choices += [
            f"(t(i) for i in [{call}])",
            f"sum(t(i) for i in I({call} and 2))",
            "[y := t(1), y]",
        ]
        choices += [
            f"sorted([2, 1], key=lambda i: -t(i) + {self.k()})",
            f"list(map(t, [a == 1, {call}]))",
        ]
        self.write(depth, "d = " + self.random.choice(choices))

    def write_local(self, depth: int, budget: int) -> None:
        choices = [
            f"def k(x={self.call()}): return t(x)",
            f"k = lambda x={self.call()}: t(x)",
            "d = k(2)",
        ]
        choices += [
            f"class K: y = {self.call()}",
            f"class K(M): z: int = {self.call()}",
            "d = K(2)",
        ]
        self.write(depth, self.random.choice(choices))

    def write_leave(self, depth: int, budget: int) -> None:
        self.write(depth, self.random.choice(["break", "continue"]))

    def write_suspend(self, depth: int, budget: int) -> None:
        choices = [
            "yield a",
            f"a = yield {self.call()}",
            f"b = [(yield 1), {self.call()}, (yield)]",
        ]
        choices += [
            "a = yield from [1, 2]",
            f"a = yield from I({self.call()} and 2)",
            f"t((yield {self.k()}) or 1)",
        ]
        later = list(range(self.number + 1, self.functions + 1))
        if later:
            choices += [f"a = yield from gen{self.random.choice(later)}()"] * 2
        self.write(depth, self.random.choice(choices))

    def write_drive(self, depth: int, budget: int) -> None:
        """A generator that is advanced by hand; it is closed in the end."""
        later = list(range(self.number + 1, self.functions + 1))
        if not later:
            self.write_assign(depth, budget)
            return
        self.write(depth, f"g = gen{self.random.choice(later)}({self.call()})")
        self.write(depth, "try:")
        for _ in range(self.random.randrange(1, 4)):
            actions = [
                "next(g)",
                "d = next(g, 5)",
                f"g.send({self.k()})",
                "g.throw(Out(5))",
                "a = [*g]",
            ]
            self.write(depth + 1, self.random.choice([*actions, "next(g)", "next(g)"]))
        self.write(depth, "except StopIteration as stop: a = stop.value")
        self.write(depth, "finally: g.close()")

    # Compound statements

    def write_if(self, depth: int, budget: int) -> None:
        self.write(depth, f"if {self.test()}:")
        self.body(depth + 1, budget)
        if self.random.random() < 0.4:
            self.write(depth, f"elif {self.test()}:")
            self.body(depth + 1, budget)
        self.maybe(depth, budget, "else:")

    def maybe(self, depth: int, budget: int, head: str, chance: float = 0.4) -> bool:
        if self.random.random() > chance:
            return False
        self.write(depth, head)
        self.body(depth + 1, budget)
        return True

    def loop(self, depth: int, budget: int, head: str) -> None:
        self.write(depth, head)
        self.loops += 1
        self.body(depth + 1, budget)
        self.loops -= 1
        self.maybe(depth, budget, "else:", 0.3)

    def write_while(self, depth: int, budget: int) -> None:
        self.loop(depth, budget, f"while t({self.k()}):")

    def write_for(self, depth: int, budget: int) -> None:
        sources = ["range(2)", "I(2)", "list(b)", f"[{self.call()}, 1]", "[(1, 2), (3, 4)]"]
        self.loop(depth, budget, f"for {self.target()} in {self.random.choice(sources)}:")

    def write_try(self, depth: int, budget: int) -> None:
        self.write(depth, "try:")
        self.body(depth + 1, budget)
        heads = ["except Out:", "except Out as e:", "except (Out, TypeError) as e:"]
        heads += ["except LookupError as a:", f"except [Out, TypeError][t({self.k()}) % 2]:"]
        handled = self.maybe(depth, budget, self.random.choice(heads), 0.5)
        last = self.random.choice(["except:", "except Exception as e:", "except Exception:"])
        handled = self.maybe(depth, budget, last, 0.5) or handled
        if handled:
            self.maybe(depth, budget, "else:", 0.3)
        if not handled or self.random.random() < 0.4:
            self.write(depth, "finally:")
            self.body(depth + 1, budget)

    def write_with(self, depth: int, budget: int) -> None:
        gives = self.random.choice(["", f", {self.k()}", ", (1, 2)", ", b"])
        head = f"with M({self.k()}{gives})"
        if self.random.random() < 0.6:
            head += f" as {self.target()}"
        if self.random.random() < 0.4:
            head += f", M({self.call()}) as d"
        self.write(depth, head + ":")
        self.body(depth + 1, budget)

    def write_match(self, depth: int, budget: int) -> None:
        subject = self.random.choice([self.call(), "b", "c", "{'k': a}"])
        self.write(depth, f"match {subject}:")
        patterns = ["0", "1 | 2", "[d, *_]", "V(v=d)", "V(d)", "{'k': d, **rest}", "int(d)", "[]"]
        patterns += [f"d if {self.test()}", "str() | None", "[2, d]", "(_, d, *a)"]
        for pattern in self.random.sample(patterns, 2):
            self.write(depth + 1, f"case {pattern}:")
            self.body(depth + 2, budget)
        if self.random.random() < 0.4:
            self.write(depth + 1, "case _:")
            self.body(depth + 2, budget)

    def write_function(self, depth: int, budget: int) -> None:
        if self.random.random() < 0.3:
            self.write(depth, "@deco")
        outer = self.loops, self.generator
        self.loops, self.generator = 0, self.random.random() < 0.3
        name = f"h{len(self.lines)}"  # of its own, so that no function calls itself without end
        self.write(depth, f"def {name}(x={self.call()}, *rest):")
        if self.random.random() < 0.5:
            self.write(depth + 1, "nonlocal a, d")
        else:
            self.write(depth + 1, "a = x")
        self.write(depth + 1, "b, c = [x], V(1)")
        self.body(depth + 1, budget)
        if self.generator:
            self.write(depth + 1, "yield a")
        self.write(depth, f"d = [*{name}()]" if self.generator else f"d = {name}({self.call()})")
        self.loops, self.generator = outer

    def write_klass(self, depth: int, budget: int) -> None:
        outer = self.loops, self.generator
        self.loops, self.generator = 0, False
        self.write(depth, f"class K({self.random.choice(['M', 'V', 'I'])}):")
        self.write(depth + 1, f"y = {self.call()}")
        choices = [
            f"def m(self): return t({self.k()}) + super().v",
            f"a = {self.call()}",
            "z = [y for _ in b]",
        ]
        choices += [
            f"if {self.call()}: y = 2",
            "for i in I(2): pass",
            "q: int = t(1)",
            f"with M({self.k()}): y += 1",
        ]
        for text in self.random.sample(choices, 2):
            self.write(depth + 1, text)
        self.write(depth, f"d = K({self.call()})")
        self.loops, self.generator = outer
