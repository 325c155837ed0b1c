"""`synth constraints`: what programs can be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from synth.constraints import Constraint

EPILOG = """\b
Examples:
  synth constraints
  synth constraints --types str,list --level 4
  synth constraints --types math --count
  synth constraints --excluded
  synth constraints --types dict --level 6 --json
"""


@click.command(epilog=EPILOG, short_help="List what programs can be asked for.")
@click.option(
    "--types", default="", metavar="T,T,…", help="Owners of the operations.  [default: all]"
)
@click.option("--level", type=int, default=None, metavar="L", help="Show the rules of one level.")
@click.option(
    "--depth", type=int, default=3, show_default=True, metavar="D", help="As in synth generate."
)
@click.option("--count", is_flag=True, help="Only count.")
@click.option("--excluded", is_flag=True, help="List what is not an operation, with the reason.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def constraints(
    types: str, level: int | None, depth: int, count: bool, excluded: bool, as_json: bool
) -> None:
    """List operations, levels and rules; every rule with the sentence that a model is given."""
    from synth.commands.generate import names
    from synth.constraints import levels, operations_of
    from synth.errors import ConfigError

    known = levels(depth)
    if level is not None and level not in known:
        raise ConfigError(
            f"--level is {level}; --depth {depth} gives the levels {', '.join(map(str, known))}"
        )
    chosen = names(types)
    operations = operations_of(chosen or None)
    if excluded:
        _print_exclusions(chosen, as_json=as_json)
    elif as_json:
        _print_json(operations, level, depth)
    else:
        _print_text(operations, level, depth, count=count)


def _example(operation: object, level: int, depth: int) -> Constraint:
    from synth.catalogue import Operation
    from synth.constraints import Constraint, level_depth, structure

    assert isinstance(operation, Operation)
    blueprint = ("for", "if", "while", "if-elif", "for")[: level_depth(level, depth)]
    return Constraint(operation, level, structure(level, depth, blueprint))


def _print_text(
    operations: tuple[object, ...], level: int | None, depth: int, *, count: bool
) -> None:
    from collections import Counter

    from synth.catalogue import Operation
    from synth.constraints import level_sentence, levels, rules_of

    known = [op for op in operations if isinstance(op, Operation)]
    owners: Counter[str] = Counter(op.owner for op in known)
    families: Counter[str] = Counter(op.family for op in known)
    click.echo(", ".join(f"{n} operations of the {name} family" for name, n in families.items()))
    if count:
        for owner, number in owners.items():
            click.echo(f"  {number:4d}  {owner}")
        return
    click.echo("\nLevels")
    for number in levels(depth):
        click.echo(f"  {number}  {level_sentence(number, depth)}")
    wanted = [level] if level is not None else [max(levels(depth))]
    for number in wanted:
        click.echo(f"\nRules of level {number} (the nest of control structures varies)")
        example = _example(known[0], number, depth)
        for rule in rules_of(example):
            click.echo(f"  {rule.name:18}{rule.sentence(example)}")
    click.echo("\nOperations")
    for owner in owners:
        forms = [f"{op.form}" for op in known if op.owner == owner]
        click.echo(f"  {owner}: " + "  ".join(forms))


def _print_json(operations: tuple[object, ...], level: int | None, depth: int) -> None:
    import json

    from synth.catalogue import Operation
    from synth.constraints import RULES, level_sentence, levels, rules_of

    known = [op for op in operations if isinstance(op, Operation)]
    wanted = levels(depth) if level is None else (level,)
    first = {number: _example(known[0], number, depth) for number in wanted}
    data = {
        "levels": [
            {
                "level": number,
                "sentence": level_sentence(number, depth),
                "structure": str(first[number].structure),
                "rules": [
                    {"name": rule.name, "sentence": rule.sentence(first[number])}
                    for rule in rules_of(first[number])
                ],
            }
            for number in wanted
        ],
        "optional_rules": [
            {"name": rule.name, "sentence": rule.sentence(first[wanted[0]])}
            for rule in RULES
            if rule.optional
        ],
        "operations": [
            {
                "id": op.id,
                "owner": op.owner,
                "family": op.family,
                "kind": op.kind,
                "form": op.form,
                "returns_none": op.returns_none,
                "mutates": op.mutates,
            }
            for op in known
        ],
        "count": len(known) * len(wanted),
    }
    click.echo(json.dumps(data, indent=2))


def _print_exclusions(owners: list[str], *, as_json: bool) -> None:
    import json

    from synth.catalogue import catalogue

    found = [e for e in catalogue().exclusions if not owners or e.owner in owners]
    if as_json:
        click.echo(json.dumps([{"id": e.id, "reason": e.reason} for e in found], indent=2))
        return
    for exclusion in found:
        click.echo(f"{exclusion.id:45} {exclusion.reason}")
