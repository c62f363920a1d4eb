// Changes: an element with data-call makes one call of the API, with the fields of its form.
import { $, $$, fragment, on, toast } from './dom.js';

function parsed(field) {
  try {
    return JSON.parse(field.value);
  } catch (error) {
    throw new Error(`${field.closest('label').querySelector('span').textContent.trim()}: this is no JSON. ${error.message}`);
  }
}

function fields(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled) continue;
    if (field.type === 'radio' && !field.checked) continue;
    const was = field.dataset.was;
    if (was !== undefined ? field.value === was : field.value === '') continue; // as it was
    const value = field.value === '' ? null : field.matches('[data-instant]') ? new Date(field.value).toISOString()
      : field.type === 'number' ? Number(field.value) : field.matches('[data-json]') ? parsed(field)
        : 'list' in field.dataset ? field.value.split(',').map((each) => each.trim()).filter(Boolean)
          : 'words' in field.dataset ? [...field.value.matchAll(/"([^"]*)"|(\S+)/g)].map((each) => each[1] ?? each[2]) : field.value;
    const [group, name] = field.name.split('.'); // "edits.prompt" is {edits: {prompt}}
    if (name) (body[group] ??= {})[name] = value; else body[group] = value;
  }
  return body;
}

export const chosen = () => $$('tbody[data-nav] input:checked').map((each) => each.value); // rows, by name

const quoted = (name) => `"${name.replace(/[\\"]/g, '\\$&')}"`;
export const selector = (names) => `name=${names.map(quoted).join(',')}`;

const filled = (path, result) => path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(result?.[name] ?? ''))
  .replace(/\/{2,}/g, '/');

export async function call(element, body) {
  const [method, path] = element.dataset.call.split(/ (.+)/);
  const headers = { 'X-Matins-CSRF': '1' };
  if (method !== 'DELETE') headers['Content-Type'] = 'application/json';
  const { match } = element.dataset; // a revision, or * for any
  if (match) headers['If-Match'] = match === '*' ? match : `"${match}"`;
  if (method === 'POST') headers['Idempotency-Key'] = crypto.randomUUID?.() ?? String(Math.random());
  const response = await fetch(path, { method, headers, body: method === 'DELETE' ? undefined : JSON.stringify(body) });
  const text = await response.text();
  const result = text && response.headers.get('content-type')?.includes('json') ? JSON.parse(text) : null;
  if (!response.ok) throw new Error(result ? [result.detail, result.hint].filter(Boolean).join(' ') : response.statusText);
  return result;
}

function problem(element, text) {
  const box = element.matches('form') && $('.problem', element);
  if (!box) return toast(text);
  box.textContent = text;
  box.hidden = false;
  return undefined;
}

function reveal(form, secret) { // shown here and never again
  const box = $('.command', form) ?? Object.assign(document.createElement('div'), { className: 'command' });
  box.replaceChildren(Object.assign(document.createElement('code'), { textContent: secret, tabIndex: 0 }));
  $('.problem', form).before(box);
  form.closest('dialog').addEventListener('close', () => box.remove(), { once: true });
  form.reset();
}

export async function act(element, body = {}) {
  const buttons = element.matches('form') ? $$('button', element) : [element];
  buttons.forEach((button) => { button.disabled = true; });
  try {
    const result = await call(element, body);
    if (element.dataset.secret) reveal(element, result[element.dataset.secret]); else element.closest('dialog')?.close();
    toast(element.dataset.done ?? 'Done.');
    if (element.dataset.to) location.href = filled(element.dataset.to, result);
    else document.body.dispatchEvent(new CustomEvent('matins:refresh'));
    if ('names' in element.dataset) document.dispatchEvent(new CustomEvent('matins:unselect'));
  } catch (error) {
    problem(element, error instanceof TypeError ? 'Matins does not answer. Nothing was changed, or the answer was lost.' : error.message);
    document.body.dispatchEvent(new CustomEvent('matins:refresh'));
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}

// What starts or deletes many, or ends something, asks once more; what is shown before a decision is fetched.
const asking = $('#ask');
export function ask(text, opener, go) {
  asking.replaceChildren();
  const form = Object.assign(document.createElement('form'), { className: 'keys stack', method: 'dialog' });
  const words = Object.assign(document.createElement('h2'), { textContent: text, id: 'ask-title' });
  const yes = Object.assign(document.createElement('button'), { className: `button ${opener.matches('.danger') ? 'danger' : 'primary'}`, textContent: opener.dataset.word ?? 'Yes', value: 'yes' });
  const no = Object.assign(document.createElement('button'), { className: 'button', textContent: 'No', value: '' });
  const row = Object.assign(document.createElement('div'), { className: 'row' });
  row.append(yes, no);
  form.append(words, row);
  asking.append(form);
  asking.setAttribute('aria-labelledby', 'ask-title');
  asking.returnValue = '';
  asking.addEventListener('close', () => { opener.focus(); if (asking.returnValue === 'yes') go(); }, { once: true });
  asking.showModal();
}
async function show(opener) {
  const found = await fragment(opener.dataset.ask);
  if (!found) { toast('It is not there any more. The page is renewed.'); document.body.dispatchEvent(new CustomEvent('matins:refresh')); return; }
  asking.replaceChildren(...found.childNodes);
  asking.setAttribute('aria-labelledby', $('h2', asking)?.id ?? '');
  asking.addEventListener('close', () => opener.focus(), { once: true });
  asking.showModal();
}
on('click', (event) => {
  const asked = event.target.closest('[data-ask]');
  if (asked) { show(asked); return; }
  const opener = event.target.closest('[data-dialog]');
  if (opener) {
    const dialog = document.getElementById(opener.dataset.dialog);
    dialog.showModal();
    dialog.addEventListener('close', () => opener.focus(), { once: true });
  }
  if (event.target.closest('[data-close]')) event.target.closest('dialog').close();
  const button = event.target.closest('button[data-call]');
  if (!button || button.dataset.arm) return;
  const go = () => act(button, button.dataset.body ? JSON.parse(button.dataset.body) : {});
  if (button.dataset.sure) ask(button.dataset.sure, button, go); else go();
});
on('submit', (event) => {
  const form = event.target;
  if (!form.matches('[data-call]')) return;
  event.preventDefault();
  let body;
  try {
    body = fields(form);
  } catch (error) {
    problem(form, error.message);
    return;
  }
  const keyed = form.dataset.keyed; // a new record: its key is in the path
  if (keyed) {
    form.dataset.path ??= form.dataset.call;
    form.dataset.call = form.dataset.path.replace(/[^/]*$/, encodeURIComponent(body[keyed]));
    delete body[keyed];
  }
  act(form, {
    ...JSON.parse(form.dataset.body ?? '{}'), ...body, ...('names' in form.dataset && { select: selector(chosen()) }),
  });
});

// Approvals: the first press arms, the second confirms. A digest that changed in between disarms: the card is another.
function disarm() {
  $$('.armed').forEach((button) => { button.classList.remove('armed'); $('span', button).textContent = button.dataset.word; });
}
export function arm(button) {
  if (!button || button.disabled) return;
  if (button.classList.contains('armed')) { disarm(); act(button, JSON.parse(button.dataset.body)); return; }
  disarm();
  button.classList.add('armed');
  $('span', button).textContent = `Press again to ${button.dataset.arm}`;
  button.focus();
}
let digests = new Map();
const read = () => new Map($$('.approval').map((card) => [card.id, card.dataset.digest]));
on('htmx:after:swap', () => {
  const now = read();
  for (const [id, digest] of digests) if (now.get(id) !== digest) { disarm(); if (now.has(id)) toast('The request has changed. Read it again.'); }
  digests = now;
  if (!$('.approval.current')) current($('.approval'));
});
digests = read();
on('click', (event) => {
  const button = event.target.closest('[data-arm]');
  if (button) return arm(button);
  const head = event.target.closest('.approval>header');
  if (head) current(head.parentElement);
  return undefined;
});
on('keydown', (event) => { if (event.key === 'Escape') disarm(); });
export function current(card) {
  if (!card) return;
  $$('.approval').forEach((each) => { each.classList.toggle('current', each === card); $('h2 button', each).setAttribute('aria-expanded', each === card); });
  card.scrollIntoView({ block: 'nearest' });
}
