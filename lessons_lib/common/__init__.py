"""What every other package stands on: TensorFlow loaded quietly, source lines, sizes, results."""
