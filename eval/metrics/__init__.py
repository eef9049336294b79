"""Official metrics; importing this package registers them all in `METRICS`."""

from xling.eval.metrics import labels as labels
from xling.eval.metrics import qa as qa
from xling.eval.metrics import text as text
from xling.eval.metrics.base import METRICS as METRICS
from xling.eval.metrics.base import Metric as Metric
from xling.eval.metrics.base import evaluate as evaluate
