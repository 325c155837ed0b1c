"""The release, as a constant: reading it from the installed metadata costs 70 ms at start-up."""

VERSION = "0.1.0"
