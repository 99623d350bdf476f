from setuptools import setup

setup()  # all settings are in pyproject.toml
