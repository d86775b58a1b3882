startTheme();
(async () => {
  const Page = { '/run': RunPage, '/compare': ComparePage }[window.location.pathname] ?? RunsPage;
  shownPage = new Page();
  window.addEventListener('popstate', () => shownPage?.update());
  try {
    await shownPage.start();
  } catch (problem) {
    headed('Verdict', 'This cannot be shown', make('p', { class: 'notice' }, said(problem.message)));
  }
})();
