"""From a model's next-word probabilities to sentences. Sees a model only through the Stepper protocol."""
