"""Official metrics, a file for each family of them."""

from xling.eval.metrics.base import METRICS as METRICS
from xling.eval.metrics.base import Metric as Metric
from xling.eval.metrics.base import evaluate as evaluate
