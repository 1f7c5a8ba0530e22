"""How exact and how dear the recorder is, beside other tools; run on demand, never by pytest.

::

    pip install -r tests/benchmarks/requirements.txt
    python -m tests.benchmarks.accuracy --readme
    python -m tests.benchmarks.cost --readme

Each prints tables; with ``--readme`` it writes them into README.md between its markers.
"""
