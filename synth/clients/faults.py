"""What can go wrong between a request and a completion, each as a kind of its own.

Covers `Fault` and the reading of what a server sent: a response becomes replies or a fault, an exception of
the `openai` client becomes a fault. A fault is never a model's answer, so it never becomes a grade. Does
not decide what to do about a fault (`patience.py`, `client.py`). Does not import `openai`: it tells its
exceptions by their attributes, so reading a stored run needs no client.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from synth.completions import Ask, Reply

__all__ = ["KINDS", "Fault", "fault_of", "prompt_was_cut", "read"]

KINDS = {
    "rate_limited": "the server asks for fewer requests (429)",
    "unavailable": "the server is not ready (503)",
    "unreachable": "nothing answers at the address",
    "reset": "the connection broke",
    "timed_out": "no answer in time",
    "server_error": "the server failed (5xx)",
    "not_json": "the answer is no completion, as a gateway's error page is not",
    "no_choices": "the answer holds no choices",
    "no_content": "the answer has no content, only reasoning or nothing",
    "too_long": "the prompt does not fit the model's context",
    "prompt_cut": "the server cut the prompt without saying so",
    "filtered": "the server's content filter refused the prompt",
    "refused": "the server refused the request as it is (400, 422)",
    "denied": "the server wants another key or more credit (401, 403)",
    "not_found": "no such address or model (404)",
}
"""Kind of fault -> what it means."""

PATIENT = frozenset(("rate_limited", "unavailable", "unreachable"))
"""Will pass when one waits; they do not use up the attempts meant for a server that fails."""
PASSING = PATIENT | {"reset", "timed_out", "server_error", "not_json", "no_choices", "no_content"}
"""Worth another attempt."""
OF_THE_PROMPT = frozenset(("too_long", "prompt_cut", "filtered"))
"""True of one prompt, whatever the state of the server."""
FINAL = OF_THE_PROMPT - {"prompt_cut"} | {"refused"}
"""The same request would meet the same end: kept in the store, as long as the server answers others. A
prompt that was cut is not among them because its replies are kept, and show it each time."""
HOPELESS = frozenset(("denied", "not_found"))
"""True of every request of the run."""

_TOO_LONG = re.compile(
    r"context[_ ]length|context[_ ]size|context window|maximum context|prompt is too long|too many tokens"
    r"|exceeds? the (?:available )?context|input is too long",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content[_ ](?:filter|policy|management)", re.IGNORECASE)
_QUOTA = re.compile(r"insufficient_quota|billing", re.IGNORECASE)

LEAST_TOKENS_PER_BYTE = 1 / 8
"""A prompt has at least so many tokens per byte of UTF-8, under every tokenizer in use."""
LIKELY_TOKENS_PER_BYTE = 1 / 5
ROUND_CONTEXTS = frozenset(2**power for power in range(8, 18))
"""Sizes to which servers cut a prompt without a word."""


@dataclass(frozen=True)
class Fault:
    """Why there is no completion."""

    kind: str
    """One of `KINDS`."""
    detail: str = ""
    """What the server or the client said, shortened."""
    retry_after: float | None = None
    """Seconds that the server asked to wait, >= 0; None if it did not ask."""

    def __str__(self) -> str:
        said = f": {self.detail}" if self.detail else ""
        return f"{KINDS[self.kind]}{said}"


# ------------------------------------------------------------------------------- exceptions


def fault_of(error: Exception, *, now: float = 0.0) -> Fault | None:
    """The fault that an exception of the `openai` client stands for; None for any other exception.

    `now`: seconds since the epoch, for a `Retry-After` that names a date.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    if "APITimeoutError" in names:
        # No connection came about: nothing was asked of the server yet, unlike a slow answer.
        if type(error.__cause__).__name__ == "ConnectTimeout":
            return Fault("unreachable", "no connection in time")
        return Fault("timed_out", _short(error))
    if "APIStatusError" in names:
        return _of_status(error, now)
    if "APIConnectionError" in names:
        cause = error.__cause__
        kind = "unreachable" if type(cause).__name__ == "ConnectError" else "reset"
        return Fault(kind, _short(cause or error))
    if "APIResponseValidationError" in names or isinstance(error, ValueError):
        # A body that says it is JSON and is not: the decoder's error comes through.
        return Fault("not_json", _short(error))
    return None


def _of_status(error: Any, now: float) -> Fault:
    status = int(error.status_code)
    body = getattr(error, "body", None)
    # Servers that are no OpenAI put their words under other keys, and codes stand beside the message.
    message = body.get("message") if isinstance(body, dict) else None
    said = _short(f"{status}: {message or body or error}")
    words = f"{error} {body}"
    if status == 429:
        kind = "denied" if _QUOTA.search(words) else "rate_limited"
        return Fault(kind, said, _retry_after(error, now))
    if status == 503:
        return Fault("unavailable", said, _retry_after(error, now))
    if status in (408, 504):
        return Fault("timed_out", said)
    if status >= 500 or status == 409:
        return Fault("server_error", said)
    if status in (401, 402, 403):
        return Fault("denied", said)
    if status == 404:
        return Fault("not_found", said)
    if status == 413 or _TOO_LONG.search(words):
        return Fault("too_long", said)
    return Fault("filtered" if _FILTERED.search(words) else "refused", said)


def _retry_after(error: Any, now: float) -> float | None:
    text = str(error.response.headers.get("retry-after") or "")
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except ValueError:
        return None


def _short(error: object, limit: int = 300) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else f"{text[:limit]}…"


# -------------------------------------------------------------------------------- responses


def read(response: Any, count: int, seed: int | None) -> list[Reply] | Fault:
    """The completions in a response, at most `count`, in the order of their index; or the fault.

    A response may hold fewer than were asked for; the caller counts. `seed` is the one that was sent.
    """
    if isinstance(response, (str, bytes)) or not hasattr(response, "choices"):
        return Fault("not_json", _short(response))
    choices = list(response.choices or ())
    if not choices:
        extra = getattr(response, "model_extra", None) or {}
        return Fault("no_choices", _short(extra.get("error") or "choices is empty or null"))
    choices.sort(key=lambda choice: getattr(choice, "index", None) or 0)
    usage = getattr(response, "usage", None)
    prompt_tokens = _count(usage, "prompt_tokens")
    cached = _count(getattr(usage, "prompt_tokens_details", None), "cached_tokens")
    replies = []
    for place, choice in enumerate(choices[:count]):
        text, reasoning = _texts(choice)
        replies.append(
            Reply(
                text=text,
                finish_reason=str(getattr(choice, "finish_reason", None) or ""),
                reasoning=reasoning,
                served_by=str(getattr(response, "model", None) or ""),
                seed=None if seed is None else seed + place,
                prompt_tokens=prompt_tokens if not cached else max(prompt_tokens or 0, cached),
                completion_tokens=(
                    _count(usage, "completion_tokens") if len(choices) == 1 else None
                ),
            )
        )
    return replies


def _texts(choice: Any) -> tuple[str | None, str]:
    """Content and reasoning of a choice of either endpoint."""
    message = getattr(choice, "message", None)
    if message is None:
        text = getattr(choice, "text", None)
        return (text if isinstance(text, str) else None), ""
    content = getattr(message, "content", None)
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    # vLLM and SGLang say reasoning_content, others reasoning.
    found = [getattr(message, name, None) for name in ("reasoning_content", "reasoning")]
    reasoning = next((text for text in found if isinstance(text, str) and text), "")
    return (content if isinstance(content, str) else None), reasoning


def _count(usage: Any, name: str) -> int | None:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def prompt_was_cut(ask: Ask, replies: Sequence[Reply]) -> Fault | None:
    """The fault of a prompt that the model cannot have seen whole, by the tokens the server counted.

    Far fewer tokens than the text can have, or a round number that is less than it probably has.
    Servers that count no tokens are believed.
    """
    size = len(ask.text.encode("utf-8", "surrogatepass"))
    for reply in replies:
        tokens = reply.prompt_tokens
        if tokens is None:
            continue
        few = tokens < size * LEAST_TOKENS_PER_BYTE
        if few or (tokens in ROUND_CONTEXTS and tokens < size * LIKELY_TOKENS_PER_BYTE):
            return Fault("prompt_cut", f"{tokens} tokens counted for a prompt of {size} bytes")
    return None
