"""Texts of data cards, as package data; `synth.publish` reads them with `importlib.resources`."""
