"""Episodes and windows: recorded game-play that is lossless, small, fast to read and hard to corrupt."""
