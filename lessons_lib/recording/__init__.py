"""From TensorFlow's profiler to a `Recording`."""
