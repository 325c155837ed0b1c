"""The structural rules: what the operation and the level of a constraint ask for, and that it runs.

Covers the paper's rules on nested calls, other operations, control flow and the call chain, each with
its sentence, the check of the text and the check of the executions, and the rules that nothing in a
program is idle: no dead code, conditions that go both ways, outputs that vary. Which structure a level
has is said in `levels.py`; where operations stand in a text is found by `synth.sites`.
"""

from __future__ import annotations

import ast

from synth.catalogue import Operation
from synth.constraints.records import Constraint, Evidence, Rule, say
from synth.sites import Site, find_sites
from synth.source import Source, control_chains

# --- nested calls -----------------------------------------------------------------------------


def _nested_sentence(constraint: Constraint) -> str:
    operation = constraint.operation
    if operation.returns_none:
        return (
            f"Use `{operation.form}` ({operation.id}) at least twice; once, build its receiver or an "
            "argument by a call inside another call."
        )
    return (
        f"Use `{operation.form}` ({operation.id}) at least twice; once as the argument or receiver of a "
        "call that is itself the argument or receiver of another call."
    )


def nested_site(operation: Operation, site: Site) -> bool:
    """Whether a site meets the nesting rule.

    An operation with a value stands inside two calls, one around the other; one that returns None has
    a receiver or an argument that is itself built by a call within a call.
    """
    if operation.returns_none:
        return site.inner_calls >= 2
    return site.enclosing_calls >= 2


def _nested_calls(constraint: Constraint, source: Source) -> str | None:
    sites = find_sites(source, constraint.operation)
    if len(sites) < 2:
        return f"{constraint.operation.form} occurs {len(sites)} times, at least 2 wanted"
    if not any(nested_site(constraint.operation, site) for site in sites):
        return f"no nested use of {constraint.operation.form}"
    return None


def _operation_runs(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    operation = constraint.operation
    owner = operation.owner.rpartition(".")[2]
    typed = operation.kind in ("method", "operator", "subscript")
    confirmed = {site for site, name in evidence.probes if not typed or name == owner}
    if len(confirmed) < 2:
        return f"{operation.id} ran at {len(confirmed)} sites, at least 2 wanted"
    sites = find_sites(source, operation)
    if not any(nested_site(operation, s) for s in sites if s.index in confirmed):
        return f"the nested use of {operation.id} never ran on {owner}"
    return None


# --- other operations -------------------------------------------------------------------------


def _other_sentence(constraint: Constraint) -> str:
    if constraint.structure.other_operations:
        return "Use at least one other method or library function as well."
    return (
        "Use no other method and no function of another library module; builtin functions and operators "
        "are fine."
    )


def other_operations(constraint: Constraint, source: Source) -> list[str]:
    """Methods and library functions that the program calls besides the constraint's operation."""
    own_sites = {operation_name(constraint.operation)}
    module = constraint.operation.module
    found: list[str] = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        target = source.resolve(node.func)
        if target is not None and "." in target:
            # Its own module is part of using an operation: a pattern must be compiled, a date made.
            if target.partition(".")[0] != module and target not in own_sites:
                found.append(target)
        elif isinstance(node.func, ast.Attribute) and node.func.attr not in own_sites:
            found.append(node.func.attr)
    return found


def operation_name(operation: Operation) -> str:
    """How the operation is named where it is called: `strip`, `math.gcd`, `dict.fromkeys`."""
    if operation.kind == "method":
        return operation.name
    return operation.id


def _other_operations(constraint: Constraint, source: Source) -> str | None:
    others = other_operations(constraint, source)
    if constraint.structure.other_operations:
        return None if others else "no other method or library function is used"
    return f"{others[0]} is used besides the operation" if others else None


# --- control flow -----------------------------------------------------------------------------


def _blueprint_sentence(constraint: Constraint) -> str:
    blueprint = constraint.structure.blueprint
    if not blueprint:
        return "Use no if, for or while statement."
    words = {"if": "an if", "if-elif": "an if-elif", "for": "a for loop", "while": "a while loop"}
    nest = ", which holds ".join(words[kind] for kind in blueprint)
    return (
        f"Nest control structures exactly {len(blueprint)} deep, in this order from outside in: {nest}; "
        "put no other structure deeper than that."
    )


def _blueprint(constraint: Constraint, source: Source) -> str | None:
    wanted = constraint.structure.blueprint
    depth = max((len(chain) for chain in source.nests), default=0)
    if depth != len(wanted):
        return f"control structures are nested {depth} deep, {len(wanted)} wanted"
    if wanted and wanted not in source.nests:
        return f"no nest {' > '.join(wanted)}"
    return None


def innermost(constraint: Constraint, source: Source) -> list[ast.stmt]:
    """The innermost structures of the chains that follow the blueprint."""
    wanted = constraint.structure.blueprint
    return [
        node
        for function in source.every_function
        for chain, node in control_chains(function)
        if chain == wanted and isinstance(node, ast.stmt)
    ]


def _innermost_entered(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    if not constraint.structure.blueprint:
        return None
    for node in innermost(constraint, source):
        body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
        if body[0].lineno in evidence.lines:
            return None
    return "no input enters the innermost block"


# --- call chain -------------------------------------------------------------------------------


def _chain_sentence(constraint: Constraint) -> str:
    if constraint.structure.call_chain:
        return "Write exactly two functions; the entry function calls the other one."
    return "Write exactly one function."


def _call_chain(constraint: Constraint, source: Source) -> str | None:
    names = list(source.functions)
    if not constraint.structure.call_chain:
        return f"{len(names)} functions, one wanted" if len(names) != 1 else None
    if len(names) != 2:
        return f"{len(names)} functions, two wanted"
    helper = next(name for name in names if name != source.entry)
    called = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == helper
        for node in ast.walk(source.functions[source.entry])
    )
    return None if called else f"{source.entry} never calls {helper}"


def _helper_runs(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    missing = sorted(set(source.functions) - evidence.functions)
    return f"{missing[0]} is never entered" if missing else None


# --- nothing idle -----------------------------------------------------------------------------


def _no_dead_code(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    dead = sorted(evidence.statement_lines - evidence.lines)
    return f"line {dead[0]} is never executed" if dead else None


def _both_ways(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.If):
            for arm in ("true", "false"):
                if node.lineno in evidence.lines and (node.lineno, arm) not in evidence.arms:
                    return f"the condition on line {node.lineno} is never {arm}"
    return None


def _operation_matters(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    return None if evidence.operation_matters else "no output changes when its value is bent"


def _no_idle_statement(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    if not evidence.idle_lines:
        return None
    return f"no output changes when line {evidence.idle_lines[0]} is bent or left out"


def _varies(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    return "every input gives the same output" if len(evidence.outputs) < 2 else None


STRUCTURAL: tuple[Rule, ...] = (
    Rule("nested_calls", _nested_sentence, static=_nested_calls, dynamic=_operation_runs),
    Rule("other_operations", _other_sentence, static=_other_operations),
    Rule("control_flow", _blueprint_sentence, static=_blueprint, dynamic=_innermost_entered),
    Rule("call_chain", _chain_sentence, static=_call_chain, dynamic=_helper_runs),
    Rule("no_dead_code", say("Some input reaches every statement."), dynamic=_no_dead_code,
         over_drawn=True),
    Rule("both_ways", say("Every condition holds for some inputs and fails for others."),
         dynamic=_both_ways, over_drawn=True),
    Rule("varies", say("The result depends on the arguments."), dynamic=_varies, over_drawn=True),
    Rule("operation_matters", say("The result depends on what the operation gives."),
         dynamic=_operation_matters),
    Rule("no_idle_statement", say("Every statement bears on the result for some input."),
         dynamic=_no_idle_statement),
)  # fmt: skip
"""In the order of checking."""
