"""What a run means: metrics, statistics, plots and the report. Reads run folders only."""

import logging

# Where matplotlib cannot keep its settings (no home folder), it warns and does without: no news.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
