"""Studies that take several runs or fits: sweeps, audits, rankings, sample sizes, calibrations."""
