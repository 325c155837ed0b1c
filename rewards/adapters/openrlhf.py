"""OpenRLHF: `reward_func(queries, prompts, labels)`, loaded from a file.

    --reward.remote_url "$(python -m rewards path openrlhf)" --data.label_key spec

(up to 0.10 `--remote_rm_url`). OpenRLHF keeps one column beside the prompt, the label: it is the JSON
text of the spec. A query is prompt and response in one text, so the prompt, which shows the answer
format, is cut off first; a query that does not contain its prompt has no score.

`rewards` and `scores` are in [0, 1], which dynamic filtering assumes. For another range write a file of
your own:

    from rewards.adapters.openrlhf import RewardFunc
    reward_func = RewardFunc(scale=2.0)             # `scores` stay in [0, 1]

OpenRLHF swallows exceptions and dies later without a reward: nothing raises here, a sample without a
score gets 0.0 and `unscored` 1.0 in the logs.

Not covered: reward servers over HTTP, agents of several turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewards.adapters.scoring import Scorer, spec_in

__all__ = ["RewardFunc", "reward_func"]

_TAILS = (256, 64)


class RewardFunc(Scorer):
    """The callable; a single sample gives numbers, several give lists."""

    __name__ = "reward_func"

    def __call__(
        self,
        queries: Sequence[str],
        prompts: Sequence[object] = (),
        labels: Sequence[object] = (),
        **_: Any,
    ) -> dict[str, Any]:
        """`rewards` in [0, scale], `scores` in [0, 1], and the other metrics as `extra_logs`."""
        responses = [_response(*each) for each in zip(queries, prompts, strict=True)]
        # Without its prompt cut off, a query could be paid for the example in the prompt.
        specs = [
            None if response is None else spec_in(label)
            for response, label in zip(responses, labels, strict=True)
        ]
        verdicts = self.judge(responses, specs)
        metrics = [verdict.metrics for verdict in verdicts]
        logs = {key: [one[key] for one in metrics] for key in _LOGGED}
        found: dict[str, Any] = {
            "rewards": [one["score"] for one in metrics],
            "scores": [verdict.share for verdict in verdicts],
        }
        if len(verdicts) != 1:
            return {**found, "extra_logs": logs}
        return {
            **{key: values[0] for key, values in found.items()},
            "extra_logs": {key: values[0] for key, values in logs.items()},
        }


_LOGGED = ("io", "w", "w_right", "w_total", "tests", "format", "unscored", "timed_out", "seconds")


def _response(query: str, prompt: object) -> str | None:
    """What stands after the prompt; None if the prompt is not found.

    Tokenizing and decoding may change how a prompt begins, and a long prompt loses its beginning: then
    its end is looked for, from the right. A response that repeats it only shortens itself.
    """
    if not isinstance(prompt, str) or not prompt:
        return query
    if query.startswith(prompt):
        return query[len(prompt) :]
    for tail in (prompt, *[prompt[-size:] for size in _TAILS if len(prompt) > size]):
        place = query.rfind(tail)
        if place >= 0:
            return query[place + len(tail) :]
    return None


reward_func = RewardFunc(scale=1.0)
