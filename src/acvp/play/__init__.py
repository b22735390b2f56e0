"""Try a predictor: the dream and the real game side by side, in a browser."""
