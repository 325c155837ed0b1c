"""Make datasets of executed Python programs: constraints, programs, inputs, executions, rows.

Importing the package imports nothing else; the `synth` command and the modules are its surface.
"""
