"""Makes the part of the admission policies that is about single annotations."""
