startTheme();
startCharts();
document.querySelectorAll('script[data-island="browser"]').forEach(startBrowser);
