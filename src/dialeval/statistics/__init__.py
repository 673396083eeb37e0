"""Pure functions over arrays: what a study needs to say how far a number can be trusted.

The room knows nothing of dialogues or score tables. Arrays go in, NaN marking what is missing; an `Estimate`
comes out: value, n, interval, p-value, or `None` with a reason ("constant", "n < 3", "one rater"). Nothing
warns, nothing returns NaN, and the same seed gives the same number for any number of workers.

- `correlation`: Pearson, Spearman, Kendall, partial, AUC, distributions per class.
- `classification`, `thresholds`: AUC with intervals; the best line between classes, tried on other dialogues.
- `resampling`: intervals by resampling whole dialogues, for many sources at once.
- `differences`: which of two metrics agrees better, for many pairs in one pass.
- `significance`: Williams' test, permutation tests, randomisation, Holm, clusters in a ranking.
- `agreement`, `intraclass`: kappa, alpha, ICC, majority vote, how well people predict people.
- `shares`: how many of so many, with an interval.
- `regression`: least squares, ridge out of group, calibration.
- `weighted`: how the resampling is fast; read it before changing it.
"""

from dialeval.statistics.agreement import (
    agreement_interval,
    cohen_kappa,
    fleiss_kappa,
    human_ceiling,
    krippendorff_alpha,
    majority,
    raw_agreement,
)
from dialeval.statistics.classification import bootstrap_aucs, middle_cut, upper_half
from dialeval.statistics.correlation import (
    METHODS,
    QUANTILES,
    ClassDistribution,
    angle,
    auc,
    class_distributions,
    correlate,
    correlation_matrix,
    kendall,
    partial,
    pearson,
    spearman,
    zscore,
)
from dialeval.statistics.differences import bootstrap_differences, permute_difference, permute_differences
from dialeval.statistics.estimate import Estimate
from dialeval.statistics.intraclass import intraclass
from dialeval.statistics.regression import (
    Bin,
    Line,
    calibration,
    isotonic,
    kfold_groups,
    ols,
    ridge_out_of_group,
)
from dialeval.statistics.resampling import bootstrap_correlations, bootstrap_means, bootstrap_statistic
from dialeval.statistics.shares import share
from dialeval.statistics.significance import (
    holm,
    paired_bootstrap,
    paired_randomisation,
    permute_means,
    significance_clusters,
    williams,
)
from dialeval.statistics.thresholds import Threshold, best_threshold, held_out_threshold

__all__ = [
    "METHODS",
    "QUANTILES",
    "Bin",
    "ClassDistribution",
    "Estimate",
    "Line",
    "Threshold",
    "agreement_interval",
    "angle",
    "auc",
    "best_threshold",
    "bootstrap_aucs",
    "bootstrap_correlations",
    "bootstrap_differences",
    "bootstrap_means",
    "bootstrap_statistic",
    "calibration",
    "class_distributions",
    "cohen_kappa",
    "correlate",
    "correlation_matrix",
    "fleiss_kappa",
    "held_out_threshold",
    "holm",
    "human_ceiling",
    "intraclass",
    "isotonic",
    "kendall",
    "kfold_groups",
    "krippendorff_alpha",
    "majority",
    "middle_cut",
    "ols",
    "paired_bootstrap",
    "paired_randomisation",
    "partial",
    "pearson",
    "permute_difference",
    "permute_differences",
    "permute_means",
    "raw_agreement",
    "ridge_out_of_group",
    "share",
    "significance_clusters",
    "spearman",
    "upper_half",
    "williams",
    "zscore",
]
