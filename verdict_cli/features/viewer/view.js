startTheme();
(async () => {
  const Page = { '/run': RunPage, '/compare': ComparePage, '/queue': QueuePage }[window.location.pathname] ?? RunsPage;
  shownPage = new Page();
  window.addEventListener('popstate', () => shownPage?.update());
  try {
    await shownPage.start();
  } catch (error) {
    showPage('Verdict', 'Error', make('p', { class: 'notice' }, said(error.message)));
  }
})();
