"""How slots of channels and registers are filled from global memory."""
