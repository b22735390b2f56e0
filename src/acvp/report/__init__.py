"""One self-contained HTML page about a run or several: config, data, curves, tables, strips, videos, compute."""
