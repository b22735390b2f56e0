"""Record a pixel game, learn to predict its frames from the actions taken, and put the predictions to work."""

__version__ = "0.1.0"
