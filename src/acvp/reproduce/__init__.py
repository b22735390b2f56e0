"""`acvp reproduce`: the paper's experiments as a plan of ordinary commands, and a conclusion for every claim."""
