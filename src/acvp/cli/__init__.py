"""The command line: one file per verb, with its options, its run function and an example for its help."""
