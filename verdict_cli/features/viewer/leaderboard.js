// The leaderboard of a run: systems, the ranks that the data allow, and the metric of the ranks.

function leaderboardSection({ evaluation, metric, systems }) {
  const heads = [['Rank', ''], ['System', ''], [metric, ''], ['n', 'number']];
  const rows = systems.map((system) => make('tr', {},
    make('td', {}, system.rank[0] === system.rank[1] ? String(system.rank[0]) : system.rank.join('–')),
    make('th', { scope: 'row' }, said(system.system)),
    make('td', {}, formatMetric(system)),
    make('td', { class: 'number' }, number(system.n))));
  return make('section', { class: 'leaderboard' }, make('h2', {}, said(evaluation)),
    make('div', { class: 'wide' }, make('table', {}, make('thead', {}, make('tr', {}, ...heads.map(([text, kind]) => make('th', { scope: 'col', class: kind }, said(text))))), make('tbody', {}, ...rows))));
}
