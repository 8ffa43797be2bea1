"""What the neural utilities share: loading models, packing batches, tokens. Torch is imported when a model is used."""
