/** An address that the viewer does not have. */
class MissingPage {
  start() {
    showPage('Verdict', 'Not found', make('p', { class: 'notice' }, 'There is nothing at ', make('code', {}, said(window.location.pathname + window.location.search)), '.'),
      make('p', {}, link('/', 'Show all runs')));
  }

  update() {}
}

startTheme();
(async () => {
  const Page = { '/run': RunPage, '/compare': ComparePage, '/queue': QueuePage, '/': RunsPage }[window.location.pathname] ?? MissingPage;
  shownPage = new Page();
  window.addEventListener('popstate', () => shownPage?.update());
  try {
    await shownPage.start();
  } catch (error) {
    showPage('Verdict', 'Error', make('p', { class: 'notice' }, said(error.message)));
  }
})();
