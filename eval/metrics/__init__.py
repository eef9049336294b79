"""Official metrics; importing this package registers them all in `METRICS`."""

from eval.metrics import labels as labels
from eval.metrics import qa as qa
from eval.metrics import text as text
from eval.metrics.base import METRICS as METRICS
from eval.metrics.base import Metric as Metric
from eval.metrics.base import evaluate as evaluate
