"""Programs on which tracers go wrong, each called as `f()`: what the two implementations must agree on.

Every program is small, does one kind of thing in as many ways as fit, and runs on Python 3.10 to
3.13 with the same steps.
"""

from __future__ import annotations

import slow_programs_calls
import slow_programs_control
import slow_programs_names

PROGRAMS: dict[str, str] = {
    **slow_programs_control.PROGRAMS,
    **slow_programs_calls.PROGRAMS,
    **slow_programs_names.PROGRAMS,
}
"""Name -> program."""
