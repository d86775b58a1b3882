// The form for human labels.

/** Read a label: as one of the known answers, as a number if all answers are numbers, otherwise as text. */
function parseLabel(text, answers) {
  if (text === '') return null;
  const known = answers.find((answer) => worded(answer) === text);
  if (known !== undefined) return known;
  const numeric = answers.length > 0 && answers.every((answer) => typeof answer === 'number');
  return numeric && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** Store a label on the server. Throws RequestError. */
const saveLabel = (content) => fetchJson('/api/label', {}, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(content) });

const MOST_CHOICES = 12;

/** Whether rows are labelled by a choice: the answers are known, few, and not shares. */
const hasChoices = (answers) => answers.length > 0 && answers.length <= MOST_CHOICES && answers.every((answer) => typeof answer !== 'number' || Number.isInteger(answer));

/** A choice of the label of a row in the table. */
function labelChoice(run, { position, id, label }, answers, onSaved) {
  const own = label === null || label === undefined ? '' : worded(label);
  const texts = answers.map(worded);
  const select = makeSelect(`Label of row ${visible(id)}`, [['', '–'], ...[...texts, ...(own && !texts.includes(own) ? [own] : [])].map((text) => [text, text])], own);
  select.addEventListener('change', async () => {
    try {
      await saveLabel({ run, row: position, id, label: parseLabel(select.value, answers) });
      onSaved();
    } catch (error) {
      select.value = own;
      select.setCustomValidity(error.message);
      select.reportValidity();
    }
  });
  return select;
}

/** The label form of a row. `onSaved` is called once the server has stored the label. */
function labelForm(run, row, id, human, answers, onSaved) {
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
      await saveLabel({ run, row, id, label: value, note: note.value || null });
      status.textContent = value === null && !note.value ? 'removed' : 'saved';
      onSaved();
    } catch (error) {
      status.textContent = error.message;
    }
  });
  return form;
}
