"""What only a notebook shows: magics, widgets, pictures in place."""
