"""The training lab's report: results.json as one HTML page that needs nothing else.

    python3 bench/training/report RESULTS.json REPORT.html
"""

from .page import write

__all__ = ["write"]
