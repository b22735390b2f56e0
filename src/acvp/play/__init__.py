"""Play a predictor in the browser: the real game and the imagined one side by side."""
