"""Official metrics, one file per family."""

from xling.eval.metrics.base import METRICS as METRICS
from xling.eval.metrics.base import Metric as Metric
from xling.eval.metrics.base import evaluate as evaluate
