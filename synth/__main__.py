"""`python -m synth`."""

from synth.cli import main

main()
