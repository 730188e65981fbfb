"""From caches and memory to the facts of one unit, which are all that `decide` sees."""
