"""The process: builds the parts, connects them, runs them, stops them, answers probes."""
