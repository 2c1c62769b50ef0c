"""What is wrong with the data, and what training on them would take."""

import resource
import sys
import tempfile
from pathlib import Path

from regard.progress import duration
from regard.tasks.report import Report
from regard.training.asked import Asked
from regard.training.launch import plan_for
from regard.training.run import Models, Run


def check(asked: Asked, models: Models) -> Report:
    """Every problem; time and memory are measured, with the largest batch tried, unless the data are refused."""
    report = asked.spec.inspect(*asked.corpora())
    if not report.fatal:
        with tempfile.TemporaryDirectory() as folder:
            run = Run(asked.recipe()[0], Path(folder), models)
            run.save_tokenizers()
            report.rows |= run.task.summary(run.recipe, report)
            plan = plan_for(run.trainer())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform != "darwin" else 30))
        report.rows |= {"parameters": f"{plan.parameters:,}", "updates": f"{plan.steps:,}"}
        memory = f"about {peak:.1f} GiB; the largest batch fits"
        report.rows |= {"time": f"about {duration(plan.seconds)}", "memory": memory}
    return report
