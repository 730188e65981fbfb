"""Measurements of this project against plain ways of doing the same, in one run."""
