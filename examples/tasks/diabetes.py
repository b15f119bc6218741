"""Writes scikit-learn's diabetes data set as a table: python examples/tasks/diabetes.py FILE.

Efron et al., "Least Angle Regression" (Annals of Statistics 32, 2004).
"""

import sys
from pathlib import Path

from sklearn.datasets import load_diabetes

path = Path(sys.argv[1])
path.parent.mkdir(parents=True, exist_ok=True)
load_diabetes(as_frame=True).frame.to_csv(path, index=False)
