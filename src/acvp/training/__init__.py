"""The paper's section 3.4: a curriculum of phases, their optimizers, and a trainer that can be stopped and resumed."""
