startTheme();
startCharts();
startBrowser();
