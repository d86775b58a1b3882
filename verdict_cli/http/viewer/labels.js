// The form for human labels.

/** Read a label: as one of the known answers, as a number if all answers are numbers, otherwise as text. */
function parseLabel(text, answers) {
  if (text === '') return null;
  const known = answers.find((answer) => worded(answer) === text);
  if (known !== undefined) return known;
  const numeric = answers.length > 0 && answers.every((answer) => typeof answer === 'number');
  return numeric && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** The label form of a row. `onSaved` is called once the server has stored the label. */
function labelForm(run, row, human, answers, onSaved) {
  const label = make('input', { class: 'narrow', placeholder: 'Label', 'aria-label': 'Label', maxlength: '1000' });
  label.value = human.label === null ? '' : worded(human.label);
  const note = make('textarea', { placeholder: 'Note', 'aria-label': 'Note', maxlength: '20000' });
  note.value = human.note ?? '';
  const status = make('span', { class: 'told', role: 'status' }, human.at ? said(`saved ${formatTime(human.at)}`) : '');
  const save = make('button', { type: 'submit' }, 'Save');
  const buttons = answers.filter((answer) => worded(answer).length <= 40).slice(0, 8).map((answer) => {
    const button = make('button', { type: 'button', 'aria-pressed': String(label.value === worded(answer)) }, said(answer));
    button.addEventListener('click', () => {
      label.value = label.value === worded(answer) ? '' : worded(answer);
      press();
      form.requestSubmit();
    });
    return button;
  });
  const press = () => buttons.forEach((button, index) => button.setAttribute('aria-pressed', String(label.value === worded(answers.filter((answer) => worded(answer).length <= 40)[index]))));
  label.addEventListener('input', press);
  const form = make('form', { class: 'label' }, make('h3', {}, 'Your label'),
    ...(buttons.length ? [make('div', { class: 'chips' }, ...buttons)] : []),
    make('div', { class: 'tools' }, label, save, status), note);
  form.addEventListener('keydown', (event) => event.stopPropagation());
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    status.textContent = 'saving …';
    try {
      const value = parseLabel(label.value.trim(), answers);
      await fetchJson('/api/label', {}, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ run, row, label: value, note: note.value || null }),
      });
      status.textContent = value === null && !note.value ? 'removed' : 'saved';
      onSaved();
    } catch (error) {
      status.textContent = error.message;
    }
  });
  return form;
}
