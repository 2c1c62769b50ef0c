"""Masked language modelling: tokens that were taken out are predicted from both sides."""
