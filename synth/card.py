"""The data card of a dataset folder: its text, and whether the Hub would accept it.

Covers `render_card` (the template of `data_cards/` filled in, under a header for the Hub) and
`check_card`. The Hub's own check (`DatasetCard.validate`) needs the network; the rules it applies
to the fields that we write are repeated here, with the lists that the Hub documents. Does not cover
sending (`publish.py`).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from string import Template
from typing import TYPE_CHECKING, Any

from rewards.row import COLUMNS, Row, Spec
from synth.dataset import data_files
from synth.errors import PublishError, closest
from synth.journal import CARD, MANIFEST
from synth.manifest import Manifest
from synth.questions import answer_text, sentence
from synth.report import QUANTILES, Report

if TYPE_CHECKING:
    from huggingface_hub import DatasetCard, DatasetCardData

__all__ = ["LOCAL_NAME", "check_card", "render_card"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LICENCE = "apache-2.0"
LOCAL_NAME = "path/to/this/folder"
"""Stands in the card's load snippet until the dataset has a repository."""

# https://huggingface.co/docs/hub/repositories-licenses
LICENCES = _words(
    """
    afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc
    cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0
    cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0
    cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0 cdla-permissive-2.0 cdla-sharing-1.0
    creativeml-openrail-m ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 gfdl gpl gpl-2.0 gpl-3.0 isc
    lgpl lgpl-2.1 lgpl-3.0 lgpl-lr lppl-1.3c mit mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1 openrail
    openrail++ osl-3.0 other pddl postgresql unknown unlicense wtfpl zlib
    """
)
# ISO 639-1; three-letter codes (639-2, 639-3) are accepted by their form.
LANGUAGES = _words(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da
    de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz
    ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln
    lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi
    pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti
    tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu code multilingual
    """
)
# The text tasks of the Hub's list of tasks, and those that fit rows of any kind.
TASK_CATEGORIES = _words(
    """
    text-classification token-classification table-question-answering question-answering
    zero-shot-classification translation summarization feature-extraction text-generation
    text2text-generation fill-mask sentence-similarity text-retrieval text-ranking multiple-choice
    reinforcement-learning other
    """
)
SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
    (10**9, "100M<n<1B"),
)

# --------------------------------------------------------------------------------------- the card


def render_card(
    manifest: Manifest, report: Report, example: Row, *, repo_id: str | None = None
) -> str:
    """The text of README.md: header for the Hub, then the template of `data_cards/` filled in.

    `manifest` must have its counts (as `write_dataset` returns it). With a `repo_id` the load
    snippet names it; without, a folder. Raises `PublishError` if the card would not be accepted.
    """
    from importlib import resources

    template = resources.files("data_cards").joinpath("dataset_card.md").read_text("utf-8")
    body = Template(template).substitute(
        title=repo_id.rpartition("/")[2] if repo_id else "execverify rows",
        rows=f"{report.rows:,}",
        load=_load_lines(repo_id or LOCAL_NAME),
        example=_example(example),
        columns=_markdown_table(("column", "type", "meaning"), _column_lines()),
        figures=_figures(report),
        making=_making(manifest),
        funnel=manifest.funnel.table(),
    )
    header = _card_data(manifest, report.rows).to_yaml(line_break="\n")
    text = f"---\n{header}\n---\n\n{body}"
    check_card(text)
    return text


def _card_data(manifest: Manifest, rows: int) -> DatasetCardData:
    from huggingface_hub import DatasetCardData

    splits = manifest.counts.get("split")
    used = list(splits) if isinstance(splits, Mapping) and splits else ["train"]
    return DatasetCardData(
        pretty_name="execverify: code execution reasoning",
        license=LICENCE,
        language=["en", "code"],
        task_categories=["text-generation", "question-answering"],
        tags=["code", "code-execution", "reasoning", "reinforcement-learning", "synthetic"],
        annotations_creators=["machine-generated"],
        source_datasets=["original"],
        size_categories=[_size_category(rows)],
        configs=[{"config_name": "default", "data_files": data_files(used)}],
    )


def _size_category(rows: int) -> str:
    for bound, name in SIZES:
        if rows < bound:
            return name
    return "n>1T" if rows > 10**12 else "other"


def _load_lines(name: str) -> str:
    return f'from datasets import load_dataset\n\nrows = load_dataset("{name}", split="train")'


def _fenced(text: str, language: str = "") -> str:
    ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
    fence = "`" * ticks
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _example(row: Row) -> str:
    shown = f"{row.code.rstrip()}\n\n# {row.entry}({row.args})\n# -> {row.output}"
    facts = (
        f"Row `{row.id}`: task {row.task}, level {row.level}, `{row.operation}`, {row.n_steps} executed"
        " statements."
    )
    asked = Spec.from_json(row.spec).questions
    lines = [f"{sentence(one, row.code)}\n   # -> {answer_text(one)}" for one in asked]
    questions = f"\n\n{_fenced(chr(10).join(lines))}" if lines else ""
    return f"{facts}\n\n{_fenced(shown, 'python')}{questions}"


def _column_lines() -> list[tuple[str, str, str]]:
    return [(f"`{column.name}`", column.type, column.meaning) for column in COLUMNS]


def _figures(report: Report) -> str:
    middle = QUANTILES.index(0.50)
    levels = _markdown_table(
        ("level", "rows", "share", "programs", "distinct shapes", "median steps", "median lines"),
        [
            (
                str(one.level),
                f"{one.rows:,}",
                f"{one.share:.1%}",
                f"{one.programs:,}",
                f"{one.shape_share:.0%}",
                f"{one.steps[middle]:.0f}",
                f"{one.lines[middle]:.0f}",
            )
            for one in report.levels
        ],
    )
    facts = [
        ("programs / input cases", f"{report.programs:,} / {report.cases:,}"),
        *((f"rows of task `{task}`", f"{count:,}") for task, count in report.tasks.items()),
        *((f"rows in `{split}`", f"{count:,}") for split, count in report.splits.items()),
        *((f"operations seen, {f.family}", f"{f.seen} of {f.catalogue}") for f in report.families),
        (
            "programs with at least 2 / 3 outputs",
            f"{report.two_outputs:.0%} / {report.three_outputs:.0%}",
        ),
        ("cases whose output is a bool", f"{report.bool_outputs:.1%}"),
        *((f"solved by guessing: {name}", f"{share:.1%}") for name, share in report.lazy.items()),
    ]
    if report.coverage:
        facts.append(("statements that some input executes", f"{report.coverage.share:.1%}"))
    return f"{levels}\n\n{_markdown_table(('figure', 'value'), facts)}"


def _making(manifest: Manifest) -> str:
    lines = [
        ("seed", f"`{manifest.seed}`"),
        ("configuration", f"SHA-256 `{manifest.digest}` (in full in `{MANIFEST}`)"),
        *((name, version) for name, version in manifest.versions.items()),
    ]
    table = _markdown_table(("what", "value"), lines)
    command = manifest.run.get("command")
    return f"{_fenced(command, 'sh')}\n\n{table}" if isinstance(command, str) else table


def _markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
    )


# ------------------------------------------------------------------------------------- the checks


def check_card(text: str, files: Sequence[str] | None = None) -> DatasetCard:
    """The parsed card; raises `PublishError` naming the field that the Hub would refuse.

    With `files` (relative paths) each `data_files` pattern must match at least one of them.
    """
    import yaml
    from huggingface_hub import DatasetCard
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    if not REGEX_YAML_BLOCK.search(text):
        raise PublishError(
            f"{CARD} has no header: it must begin with a YAML block between --- lines"
        )
    try:
        card = DatasetCard(text)
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise PublishError(f"the header of {CARD} does not parse: {error}") from error
    data: dict[str, Any] = card.data.to_dict()  # type: ignore[no-untyped-call]
    for field, known in (
        ("license", LICENCES),
        ("language", LANGUAGES),
        ("task_categories", TASK_CATEGORIES),
        ("size_categories", frozenset([*(name for _, name in SIZES), "n>1T", "other"])),
    ):
        for value in _values_of(data, field):
            _check_known(field, value, known)
    for tag in _values_of(data, "tags"):
        if not isinstance(tag, str) or not tag:
            raise PublishError(f"the header of {CARD}: tags are texts, got {tag!r}")
    _check_configs(data.get("configs"), files)
    return card


def _values_of(data: Mapping[str, Any], field: str) -> list[object]:
    if field not in data:
        if field in ("license", "language"):
            raise PublishError(f"the header of {CARD} lacks the field {field!r}")
        return []
    value = data[field]
    return value if isinstance(value, list) else [value]


def _check_known(field: str, value: object, known: frozenset[str]) -> None:
    if isinstance(value, str):
        if value in known:
            return
        if field == "language" and re.fullmatch(r"[a-z]{3}", value):
            return
    what = {
        "license": "a licence identifier such as apache-2.0 (or 'other')",
        "language": "an ISO 639 code such as en",
        "task_categories": "a task of the Hub such as text-generation",
        "size_categories": "a size such as 1K<n<10K",
    }[field]
    near = closest(str(value), known)
    raise PublishError(f"the header of {CARD}: {field}: expected {what}, got {value!r}{near}")


def _check_configs(configs: object, files: Sequence[str] | None) -> None:
    wrong = PublishError(
        f"the header of {CARD}: configs: expected a list of config_name and data_files, each of"
        " these with split and path"
    )
    if not isinstance(configs, list) or not configs:
        raise wrong
    for config in configs:
        if not isinstance(config, dict) or not isinstance(config.get("data_files"), list):
            raise wrong
        for item in config["data_files"]:
            if not isinstance(item, dict) or not {"split", "path"} <= item.keys():
                raise wrong
            path = str(item["path"])
            if files is not None and not any(fnmatch.fnmatchcase(name, path) for name in files):
                raise PublishError(f"the header of {CARD}: no file matches {path!r}")
