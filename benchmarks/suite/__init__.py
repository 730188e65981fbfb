"""Parts of `python -m benchmarks`, which runs the benchmarks one after the other."""
