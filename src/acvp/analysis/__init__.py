"""The paper's section 4.3, appendices C and D: what a predictor has learned about actions."""
