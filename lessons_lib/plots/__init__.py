"""Pictures of results; `lessons_lib.plots.registry` says which picture shows which result."""
