"""The exercises, a module for each lesson."""
