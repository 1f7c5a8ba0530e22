"""Who holds an object: used by `growth` and `live_tensors`."""
