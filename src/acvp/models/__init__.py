"""The paper's section 3: predictors behind one interface; tensors only, nothing else of acvp."""
