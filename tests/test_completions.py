"""The file of completions: nothing paid for is lost, nothing that is there is asked for again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from synth.completions import Answered, Ask, CompletionStore, Refusal, Reply, Sampling, Totals
from synth.errors import ConfigError, DataError, FolderError

ASK = Ask("small", (("user", "What is 1 + 1?"),))

texts = st.one_of(st.none(), st.text(), st.just("\ud800 lone"))
replies = st.builds(
    Reply,
    text=texts,
    finish_reason=st.sampled_from(["stop", "length", "content_filter", ""]),
    reasoning=st.text(),
    served_by=st.text(),
    seed=st.none() | st.integers(0, 2**31),
    prompt_tokens=st.none() | st.integers(1, 10**6),
    completion_tokens=st.none() | st.integers(1, 10**6),
)


@given(st.dictionaries(st.integers(0, 50), replies, max_size=8), st.data())
def test_what_was_put_comes_back_as_it_was(known: dict[int, Reply], data: st.DataObject) -> None:
    with CompletionStore(":memory:") as store:
        store.put(Answered(ASK, known))
        wanted = data.draw(st.lists(st.integers(0, 55)))
        assert store.replies(ASK, wanted) == {n: known[n] for n in wanted if n in known}
        assert ASK.key in store


def test_it_is_there_after_the_file_was_closed(tmp_path: Path) -> None:
    with CompletionStore(tmp_path / "s.sqlite") as store:
        store.put(Answered(ASK, {0: Reply("2"), 3: Reply("4", "length")}, 10, 20))
    with CompletionStore(tmp_path / "s.sqlite") as store:
        assert store.replies(ASK, range(5)) == {0: Reply("2"), 3: Reply("4", "length")}
        assert store.totals() == Totals(1, 2, 10, 20)
        assert ASK.key in store


def test_a_completion_that_is_there_never_changes(tmp_path: Path) -> None:
    with CompletionStore(tmp_path / "s.sqlite") as store:
        store.put(Answered(ASK, {0: Reply("first")}, 1, 1))
        store.put(Answered(ASK, {0: Reply("second"), 1: Reply("more")}, 1, 1))
        assert store.replies(ASK, [0, 1]) == {0: Reply("first"), 1: Reply("more")}


@pytest.mark.parametrize(
    "other",
    [
        Ask("large", ASK.messages),
        Ask("small", (("system", "What is 1 + 1?"),)),
        Ask("small", ASK.messages, Sampling(temperature=0.5)),
        Ask("small", ASK.messages, Sampling(seed=1)),
        Ask("small", ASK.messages, Sampling(extra='{"min_p": 0.1}')),
        Ask("small", ASK.messages, endpoint="completion"),
        Ask("small", ASK.messages, salt="again"),
    ],
)
def test_whatever_decides_an_answer_is_in_its_address(other: Ask) -> None:
    assert other.key != ASK.key
    assert {other.seed(n) for n in range(10)} != {ASK.seed(n) for n in range(10)}


def test_equal_requests_have_one_address() -> None:
    one = Ask("m", (), Sampling(extra='{"b": 1, "a": [2]}'))
    two = Ask("m", (), Sampling(extra='{"a":[2],"b":1}'))
    assert one.key == two.key
    # A golden value: an address that changes orphans everything that was ever paid for.
    assert ASK.key == "5c20a7e0eeb69c31af031164c736b3287648c20ab06973d95804f85166e8d6ce"


def test_neighbouring_numbers_have_neighbouring_seeds() -> None:
    seeds = [ASK.seed(number) for number in range(100)]
    assert seeds == list(range(seeds[0], seeds[0] + 100))
    assert 0 <= seeds[0] < 2**31


refusals = st.builds(Refusal, kind=st.sampled_from(["too_long", "filtered"]), detail=st.text())


@given(st.dictionaries(st.integers(0, 50), refusals, max_size=8), st.data())
def test_refusals_come_back_as_they_were(known: dict[int, Refusal], data: st.DataObject) -> None:
    with CompletionStore(":memory:") as store:
        store.put(Answered(ASK, {}, refused=known))
        wanted = data.draw(st.lists(st.integers(0, 55)))
        assert store.refusals(ASK, wanted) == {n: known[n] for n in wanted if n in known}
        assert store.refusals(Ask("large", ASK.messages), wanted) == {}
        assert store.replies(ASK, wanted) == {}
        assert store.totals() == Totals()
        assert ASK.key in store


def test_a_refusal_may_change_and_does_not_hide_a_reply(tmp_path: Path) -> None:
    with CompletionStore(tmp_path / "s.sqlite") as store:
        store.put(
            Answered(ASK, {}, refused={0: Refusal("too_long", "\ud800"), 1: Refusal("refused")})
        )
        store.put(Answered(ASK, {}, refused={1: Refusal("filtered")}))
        store.put(Answered(ASK, {0: Reply("a")}, 1, 1))
    with CompletionStore(tmp_path / "s.sqlite") as store:
        assert store.refusals(ASK, range(3)) == {
            0: Refusal("too_long", "\ud800"),
            1: Refusal("filtered"),
        }
        assert store.replies(ASK, range(3)) == {0: Reply("a")}
        assert store.totals() == Totals(1, 1, 1, 1)


def test_a_store_without_refusals_is_still_read(tmp_path: Path) -> None:
    """The file of an earlier release, which knew of none."""
    with CompletionStore(tmp_path / "s.sqlite") as store:
        store.put(Answered(ASK, {0: Reply("a")}, 1, 1))
    database = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    database.execute("DROP TABLE refusals")
    database.close()
    with CompletionStore(tmp_path / "s.sqlite") as store:
        assert store.replies(ASK, [0]) == {0: Reply("a")}
        assert store.refusals(ASK, [0]) == {}


def test_totals_by_model(tmp_path: Path) -> None:
    with CompletionStore(tmp_path / "s.sqlite") as store:
        store.put(Answered(ASK, {0: Reply("a"), 1: Reply("b")}, 5, 7))
        store.put(Answered(Ask("large", ()), {0: Reply("c")}, 11, 13))
        assert store.totals_of("small") == Totals(1, 2, 5, 7)
        assert store.totals_of("large") == Totals(1, 1, 11, 13)
        assert store.totals() == Totals(2, 3, 16, 20)
        assert store.totals().cost(1.0, 10.0) == pytest.approx(216e-6)


def test_a_note_is_kept_once(tmp_path: Path) -> None:
    with CompletionStore(tmp_path / "s.sqlite") as store:
        assert store.note("date") is None
        assert store.keep_note("date", "2026-01-01") == "2026-01-01"
        assert store.keep_note("date", "2026-01-02") == "2026-01-01"


# ---------------------------------------------------------------------------------- what goes wrong


def test_a_second_run_on_the_same_file_is_refused(tmp_path: Path) -> None:
    with (
        CompletionStore(tmp_path / "s.sqlite"),
        pytest.raises(FolderError, match="another run is using"),
    ):
        CompletionStore(tmp_path / "s.sqlite")
    CompletionStore(tmp_path / "s.sqlite").close()


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="missing"):
        CompletionStore(tmp_path / "none" / "s.sqlite")


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("These are my notes, and long enough to be no empty database file at all.")
    before = notes.read_bytes()
    with pytest.raises(DataError, match="not a store of completions"):
        CompletionStore(notes)
    assert notes.read_bytes() == before
    foreign = sqlite3.connect(tmp_path / "other.sqlite")
    foreign.execute("CREATE TABLE mine (x)")
    foreign.close()
    with pytest.raises(DataError, match="something else"):
        CompletionStore(tmp_path / "other.sqlite")


def test_a_store_of_a_later_release_is_refused(tmp_path: Path) -> None:
    CompletionStore(tmp_path / "s.sqlite").close()
    database = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    database.execute("UPDATE meta SET value = '99' WHERE name = 'version'")
    database.close()
    with pytest.raises(DataError, match="version 99"):
        CompletionStore(tmp_path / "s.sqlite")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0}, "top_p is 0"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"extra": "{"}, "not JSON"),
        ({"extra": "[1]"}, "no JSON object"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Sampling(**settings)  # type: ignore[arg-type]


def test_threads_may_share_it(tmp_path: Path) -> None:
    with CompletionStore(tmp_path / "s.sqlite") as store:

        def work(salt: str) -> None:
            for number in range(20):
                ask = Ask("m", (), salt=salt)
                store.put(Answered(ask, {number: Reply(salt)}, 1, 1))
                assert store.replies(ask, [number]) == {number: Reply(salt)}

        threads = [threading.Thread(target=work, args=(str(n),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.totals() == Totals(80, 80, 80, 80)


# ------------------------------------------------------------------------------------------ crashes

WRITER = """
import sys
from synth.completions import Answered, Ask, CompletionStore, Reply
store = CompletionStore(sys.argv[1])
for number in range(10**6):
    salt = f"{sys.argv[2]}:{number}"
    ask = Ask("m", (("user", "p"),), salt=salt)
    store.put(Answered(ask, {n: Reply(f"{salt}:{n}") for n in range(3)}, 1, 1))
    print(salt, flush=True)  # from here on it is paid for and may not be lost
"""


def test_a_process_that_is_killed_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    kept: list[str] = []
    for life in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(life)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as process:
            assert process.stdout is not None
            kept += [process.stdout.readline().strip() for _ in range(20 + 7 * life)]
            process.send_signal(signal.SIGKILL)
            # What it had told before it died is in the pipe.
            rest = process.stdout.read()
            kept += rest.split("\n")[:-1]
        with CompletionStore(path) as store:
            for salt in kept:
                ask = Ask("m", (("user", "p"),), salt=salt)
                assert store.replies(ask, range(3)) == {n: Reply(f"{salt}:{n}") for n in range(3)}
            extra = store.totals().requests - len(kept)
            assert 0 <= extra <= life + 1  # at most one a life was kept and not told of


def test_a_request_is_kept_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CompletionStore(tmp_path / "s.sqlite") as store:
        broken = {0: Reply("a"), 1: "no reply"}
        with pytest.raises(TypeError):
            store.put(Answered(ASK, {5: Reply("x")}), Answered(ASK, broken))  # type: ignore[arg-type]
        assert store.replies(ASK, range(9)) == {}
        store.put(Answered(ASK, {0: Reply("b")}))
        assert store.replies(ASK, range(9)) == {0: Reply("b")}


def test_a_child_of_a_run_does_not_hold_the_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with CompletionStore(tmp_path / "s.sqlite"):
        child = context.Process(target=_sleep)
        child.start()
    CompletionStore(tmp_path / "s.sqlite").close()
    child.terminate()
    child.join()


def _sleep() -> None:
    threading.Event().wait(20)
