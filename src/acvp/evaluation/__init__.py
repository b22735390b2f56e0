"""The paper's section 4.1: horizon curves, counterfactual futures, videos; what each number means: docs/metrics.md."""
