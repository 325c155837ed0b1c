"""What may import what, what loads when, and what every module and command must have.

The import graph is read from the source by AST, imports inside functions included, and compared with
`synth.pipeline.STAGES`; what a module loads is seen in fresh interpreters.
"""

from __future__ import annotations

import ast
import configparser
import importlib
import json
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from conftest import ROOT, Environment

from synth.cli import GROUP, cli
from synth.pipeline import STAGES

REWARDS = (
    "values", "row", "sandbox.jobs",
    "sandbox.kernel", "sandbox.mappings", "sandbox.seccomp", "sandbox.root", "sandbox.landlock",
    "sandbox.usage",
    "sandbox.isolation", "sandbox.wire", "sandbox.cell", "sandbox.report", "sandbox.performer",
    "sandbox.watch", "sandbox.zygote", "sandbox.guest", "sandbox.relay",
    "sandbox.protocol", "sandbox.sharing", "sandbox.server", "sandbox.batch", "sandbox.executor",
    "sandbox.pool", "sandbox.remote", "sandbox",
    "lexing", "answers", "assertions", "arguments", "grades", "questions",
    "courier", "candidates", "rounds", "outputs", "checking", "cases", "unittests",
    "grading", "shapes", "whitebox",
    "truths", "hacks.records", "hacks.outputs", "hacks.inputs", "hacks.questions",
    "hacks.completions", "hacks.programs", "hacks", "audit",
    "adapters.scoring", "adapters.plain", "adapters.trl", "adapters.verl", "adapters.openrlhf",
    "adapters.verifiers", "adapters.slime", "adapters.ms_swift", "adapters.areal", "adapters.rllm",
    "adapters.skyrl", "adapters.nemo_rl", "adapters",
    "adapters.files.execverify_verl", "adapters.files.execverify_openrlhf",
    "adapters.files.execverify_swift", "adapters.files",
    "selfcheck",
)  # fmt: skip
"""Modules of `rewards` in the order in which they may import each other."""

TRAINERS = (
    "records", "config",
    "layouts.base", "layouts.unittests", "layouts.chats", "layouts.programs", "layouts.reference",
    "layouts",
    "reading", "paying", "data", "models", "memory", "rollouts", "panel", "watch", "curriculum",
    "card", "run", "launch", "sft", "grpo", "evaluate",
    "demo_programs", "demo_form", "demo_model", "demo_rows", "demo", "demo_report",
    "verl", "fidelity", "commands", "recipes",
)  # fmt: skip

HEAVY = {
    *("pandas", "datasets", "hypothesis", "pyarrow", "openai", "torch", "pygments", "tqdm"),
    *("typeshed_client", "huggingface_hub", "numpy", "tenacity", "transformers", "trl"),
}
IN_THE_CHILD = {
    "synth.drawing",
    *(
        f"synth.structures.{name}"
        for name in ("nodes", "scalars", "sequences", "dicts", "inference")
    ),
}
"""Modules that the process which draws inputs runs: Hypothesis is what they are about."""


def modules_of(package: str) -> dict[str, Path]:
    """Every module of a package, by its full name; a package stands for its `__init__`."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = {package: modules_of(package) for package in ("rewards", "synth", "trainers")}
ALL = {name: path for modules in MODULES.values() for name, path in modules.items()}


def imports_of(name: str) -> Iterator[tuple[str, int]]:
    """(module, line) of all that a module imports, at any depth, under TYPE_CHECKING or by name."""
    tree = ast.parse(ALL[name].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}, line {node.lineno}: imports are absolute here"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in ALL else node.module, node.lineno
        elif isinstance(node, ast.Constant) and node.value in ALL and node.value not in MODULES:
            # `importlib.import_module("synth.report")`, and modules whose text is sent to a child.
            yield str(node.value), node.lineno


def test_the_reader_of_imports_reads_them() -> None:
    # At the top, under TYPE_CHECKING, and as the name of a module whose text is sent elsewhere.
    found = dict(imports_of("synth.inputs"))
    assert {"ast", "synth.errors", "synth.traces", "synth.drawing", "rewards.values"} <= set(found)
    inside_functions = dict(imports_of("synth.commands.generate"))
    assert {"click", "synth.engine", "synth.config", "tqdm"} <= set(inside_functions)


def test_rewards_imports_the_standard_library_only() -> None:
    for name in MODULES["rewards"]:
        for module, line in imports_of(name):
            top = module.partition(".")[0]
            allowed = top in sys.stdlib_module_names or top == "rewards"
            assert allowed, f"{name}, line {line}, imports {module}"


@pytest.mark.parametrize(
    ("package", "order"), [("rewards", REWARDS), ("synth", STAGES), ("trainers", TRAINERS)]
)
def test_a_module_imports_only_modules_that_stand_before_it(
    package: str, order: tuple[str, ...]
) -> None:
    place = {f"{package}.{name}": number for number, name in enumerate(order)}
    assert len(place) == len(order)
    # The package itself and `python -m` come last: nothing imports them.
    known = [*place, package, *(n for n in MODULES[package] if n.endswith(".__main__"))]
    assert sorted(known) == sorted(MODULES[package])
    last = len(order)
    for name in MODULES[package]:
        for module, line in imports_of(name):
            if module.partition(".")[0] != package or module == name:
                continue
            assert module in MODULES[package], f"{name}, line {line}: no module {module}"
            before = place.get(module, last) < place.get(name, last)
            assert before, f"{name}, line {line}, imports {module}, which stands after it"


def test_the_order_would_show_a_wrong_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "errors.py"
    wrong.write_text("def late():\n    from synth import engine\n")
    monkeypatch.setitem(ALL, "synth.errors", wrong)
    with pytest.raises(AssertionError, match=r"synth\.errors, line 2, imports synth\.engine"):
        test_a_module_imports_only_modules_that_stand_before_it("synth", STAGES)


# ------------------------------------------------------------------------------------ what loads

LOADED = """
import sys
before = set(sys.modules)
{statement}
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
"""


def loaded_by(statement: str, environment: Environment) -> set[str]:
    """Top-level packages outside the standard library that a fresh interpreter loads for a statement."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(statement=statement)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    # _sysconfigdata…: the standard library's own, under a name of the platform.
    return {
        name
        for name in done.stdout.split()
        if name not in sys.stdlib_module_names and not name.startswith("_sysconfigdata")
    }


@pytest.mark.parametrize("module", ["rewards", *(f"rewards.{name}" for name in REWARDS)])
def test_rewards_loads_no_third_party_module(module: str, environment: Environment) -> None:
    assert loaded_by(f"import {module}", environment) == {"rewards"}


def test_every_public_name_of_rewards_loads_no_third_party_module(environment: Environment) -> None:
    statement = "import rewards\nfor name in rewards.__all__: getattr(rewards, name)"
    assert loaded_by(statement, environment) == {"rewards"}


def test_the_command_line_starts_with_click_alone(environment: Environment) -> None:
    assert loaded_by("import synth.cli", environment) == {"synth", "click"}
    for name in ("generate", "show", "stats", "constraints", "publish", "bench"):
        assert loaded_by(f"import synth.commands.{name}", environment) == {"synth", "click"}


def test_no_module_of_synth_loads_a_heavy_one(environment: Environment) -> None:
    names = sorted(set(MODULES["synth"]) - IN_THE_CHILD - {"synth.__main__"})
    found = loaded_by("import " + ", ".join(names), environment)
    assert found & HEAVY == set()
    assert found == {"synth", "rewards", "click"}
    assert "hypothesis" in loaded_by(f"import {', '.join(IN_THE_CHILD)}", environment)


def test_help_answers_at_once(environment: Environment) -> None:
    """Under six times the CPU time of an interpreter that does nothing; the best of some tries."""

    def seconds(*args: str) -> float:
        import resource

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *args], env=environment, stdout=subprocess.DEVNULL, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    help_page = ("-m", "synth", "--help")
    seconds(*help_page)  # writes the compiled files
    ratios = []
    for _ in range(4):
        base = min(seconds("-c", "pass") for _ in range(3))
        ratios.append(min(seconds(*help_page) for _ in range(3)) / base)
        if ratios[-1] < 6:
            return
        time.sleep(0.2)
    raise AssertionError(f"synth --help takes {statistics.median(ratios):.1f} times as long")


# ------------------------------------------------------------------------- what every one must have


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_module_says_what_it_covers(name: str) -> None:
    text = ast.get_docstring(ast.parse(ALL[name].read_text(encoding="utf-8")))
    assert text, f"{name} has no docstring"
    first = text.partition("\n\n")[0]
    assert first.endswith((".", ":")), f"{name}: does not begin with a sentence: {first!r}"


def test_modules_that_a_guest_runs_do_not_shadow_the_standard_library() -> None:
    for name in ("tracer", "guest", "isolation", "values"):
        assert name not in sys.stdlib_module_names
        assert any(module.rpartition(".")[2] == name for module in ALL)


def entry_points() -> dict[str, str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    section = configparser.ConfigParser()
    text = "\n".join(line.strip() for line in setup["options.entry_points"][GROUP].splitlines())
    section.read_string(f"[commands]\n{text}")
    return dict(section["commands"])


COMMANDS = entry_points()


def test_every_command_module_is_registered() -> None:
    modules = {target.partition(":")[0] for target in COMMANDS.values()}
    written = {name for name in MODULES["synth"] if name.startswith("synth.commands.")}
    assert modules >= written


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_loads_and_shows_examples(name: str) -> None:
    module, _, attribute = COMMANDS[name].partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.short_help, "the list of commands needs a line"
    assert command.epilog
    assert command.epilog.startswith("\b\nExamples:\n")
    shown = examples(command.epilog)
    assert any(words[0] == name for words in shown)


def examples(epilog: str) -> list[list[str]]:
    """The words of each example after `synth`; comments and redirections are for the reader."""
    found = []
    for line in epilog.splitlines()[2:]:
        command = re.sub(r"^(\w+=\S+ )+", "", line.strip())
        command = re.split(r"\s{2,}| [<>] | \| ", command)[0]
        words = shlex.split(command)
        assert words[0] == "synth", line
        found.append(words[1:])
    return found


def every_epilog() -> Iterator[tuple[str, str]]:
    yield "synth", cli.epilog or ""
    for name, target in COMMANDS.items():
        module, _, attribute = target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        yield name, command.epilog
        if isinstance(command, click.Group):
            yield from ((f"{name} {sub}", c.epilog or "") for sub, c in command.commands.items())


def words_left(context: click.Context) -> list[str]:
    """What a group leaves to its subcommands; click 8.1 and later versions keep it in different places."""
    known = vars(context)
    kept = known.get("_protected_args", known.get("protected_args", []))
    return [*kept, *context.args]


@pytest.mark.parametrize(("name", "epilog"), list(every_epilog()), ids=lambda text: str(text)[:20])
def test_examples_are_command_lines_that_parse(name: str, epilog: str) -> None:
    assert examples(epilog)
    for words in examples(epilog):
        command: click.Command = cli
        context = cli.make_context("synth", list(words))
        while isinstance(command, click.Group):
            word, found, rest = command.resolve_command(context, words_left(context))
            assert found is not None
            command = found
            context = command.make_context(word, rest, parent=context)
        assert context.args == []


# ------------------------------------------------------------------------------------- the README

README = ROOT / "README.md"


@pytest.mark.skipif(not README.exists(), reason="README.md is not written yet")
def test_the_file_map_of_the_readme_is_complete() -> None:
    """A fenced tree or a table names every module of a package that is not in a folder of its own."""
    text = README.read_text(encoding="utf-8")
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    maps = [part for part in (*blocks, *tables) if "synth" in part and "rewards" in part]
    wanted = {
        path.parent.name if path.name == "__init__.py" else path.name
        for name, path in ALL.items()
        if name.count(".") == 1 and not name.endswith("__main__")
    }
    missing = min(
        (sorted(n for n in wanted if not re.search(rf"\b{re.escape(n)}\b", part)) for part in maps),
        key=len,
        default=sorted(wanted),
    )
    assert missing == [], f"the file map of README.md does not name {', '.join(missing)}"


@pytest.mark.skipif(not README.exists(), reason="README.md is not written yet")
def test_commands_in_the_readme_parse() -> None:
    text = README.read_text(encoding="utf-8")
    lines = re.findall(r"(?:^|&& |\$ )(synth [a-z]+[^\n&`#]*)", text, re.MULTILINE)
    assert any(line.startswith("synth generate --depth 3") for line in lines)
    for line in lines:
        words = shlex.split(re.split(r"\s{2,}| > | \| ", line)[0])[1:]
        with cli.make_context("synth", words) as context:
            word, command, rest = cli.resolve_command(context, words_left(context))
            assert command is not None
            command.make_context(word, rest, parent=context)


def test_setup_says_why_each_dependency_is_there() -> None:
    lines = (ROOT / "setup.cfg").read_text(encoding="utf-8").splitlines()
    start = lines.index("install_requires =")
    needed = []
    for previous, line in zip(lines[start:], lines[start + 1 :], strict=False):
        if not line.startswith(" "):
            break
        if not line.strip().startswith("#"):
            assert previous.strip().startswith("#"), f"no comment says why {line.strip()} is needed"
            needed.append(re.split("[>=<]", line.strip())[0])
    assert {"click", "hypothesis", "datasets"} <= set(needed)
    assert json.dumps(needed) == json.dumps(sorted(set(needed), key=needed.index))
