"""Datasets of recorded episodes, lossless and checksummed, and windows of them."""
