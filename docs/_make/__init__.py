"""What `make docs` writes from the code: tables of these pages, and maps of an admission policy.

A tool of the checkout: it is in no wheel and in no image.
"""
