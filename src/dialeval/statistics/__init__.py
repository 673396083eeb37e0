"""Statistics: pure functions over arrays, without dialogues or score tables.

Arrays go in, with NaN for missing values; an `Estimate` comes out: value, n, interval, p-value, or `None`
with a reason ("constant", "n < 3", "one rater"). Nothing warns, nothing returns NaN, and the same seed gives
the same number for any number of workers.

- `estimate`: the `Estimate`, conversion of arrays, a share with its interval.
- `correlation`: Pearson, Spearman, Kendall, AUC, distributions per class.
- `classification`: AUC with intervals; the best threshold between classes, measured on held-out dialogues.
- `resampling`: intervals by resampling whole dialogues, for many sources at once.
- `differences`: differences between correlations, for many pairs of metrics in one pass.
- `significance`: Williams' test, permutation tests, randomisation, Holm, the compact letter display.
- `prediction_powered`: the mean rating from few labels and many scores; conformal intervals of one unit.
- `alternative_annotator`: may a judge replace a rater? `power`: power and sample size.
- `pairwise`: Bradley-Terry strengths. `repeats`: pass@k, pass^k.
- `agreement`: kappa, alpha, AC1, majority vote, human ceiling.
- `regression`: least squares, ridge out of group, non-negative blending weights, calibration.
- `weighted`: correlations of many resamples at once; read it before changing it.
"""

from dialeval.statistics.agreement import (
    agreement_interval,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac,
    human_ceiling,
    krippendorff_alpha,
    majority,
    raw_agreement,
)
from dialeval.statistics.classification import (
    Threshold,
    best_threshold,
    bootstrap_aucs,
    held_out_threshold,
    middle_cut,
    upper_half,
)
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
    pearson,
    spearman,
    zscore,
)
from dialeval.statistics.differences import bootstrap_differences, permute_differences
from dialeval.statistics.estimate import Estimate, share
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
from dialeval.statistics.significance import (
    compact_letters,
    holm,
    paired_bootstrap,
    paired_randomisation,
    permute_means,
    williams,
)

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
    "compact_letters",
    "correlate",
    "correlation_matrix",
    "fleiss_kappa",
    "gwet_ac",
    "held_out_threshold",
    "holm",
    "human_ceiling",
    "isotonic",
    "kendall",
    "kfold_groups",
    "krippendorff_alpha",
    "majority",
    "middle_cut",
    "ols",
    "paired_bootstrap",
    "paired_randomisation",
    "pearson",
    "permute_differences",
    "permute_means",
    "raw_agreement",
    "ridge_out_of_group",
    "share",
    "spearman",
    "upper_half",
    "williams",
    "zscore",
]
