"""The subcommands of `synth`, one module each. They import click alone until they are called."""
