// Keys, printed on what they press, and off while typing. "?" lists them.
import { $, $$, address, on, toast } from './dom.js';
import { arm, ask, call, chosen as chosenNames, selector, current } from './calls.js';
import { toggle } from './palette.js';

const GO = { n: '/', s: '/schedules', r: '/runs', a: '/approvals', m: '/missions', e: '/events' };
let going = 0;

function approvals(key) {
  const cards = $$('.approval'), card = $('.approval.current');
  if (!cards.length) return false;
  if (key === 'j') current(cards[cards.indexOf(card) + 1]);
  else if (key === 'k') current(cards[cards.indexOf(card) - 1]);
  else if (key === 'a') arm($('[data-arm=approve]', card));
  else if (key === 'd') arm($('[data-arm=deny]', card));
  else if (key === 'e') $('[data-key=e]', card)?.click();
  else return false;
  return true;
}

function press(key) {
  if (key === '?') { $('#keys').showModal(); return true; }
  if (key === '/' && $('#q')) { $('#q').focus(); return true; }
  if (key === 't') { document.dispatchEvent(new CustomEvent('matins:theme')); return true; }
  if (approvals(key)) return true;
  if (key === 'j' || key === 'k') { move(key === 'j' ? 1 : -1); return true; }
  const one = row();
  if (one && key === 'x' && $('input[type=checkbox]', one)) { $('input[type=checkbox]', one).click(); return true; }
  const many = chosenNames().length && $(`[data-bulk-key="${key}"]`);
  if (many) { many.click(); return true; }
  const button = (one && $(`[data-key="${key}"]`, one)) ?? $(`.page-head [data-key="${key}"], .state-panel [data-key="${key}"]`);
  if (button) { button.click(); return true; }
  if (key === 'c') { location.href = address('/schedules/new'); return true; }
  return false;
}

on('keydown', (event) => {
  const key = event.key.toLowerCase(), held = event.ctrlKey || event.metaKey;
  if (held && key === 'k') { event.preventDefault(); toggle(); return; }
  if (held && key === 'enter' && $('#form, #record')) { $('#form, #record').requestSubmit(); return; }
  if (event.key === 'Escape' && event.target.id === 'q') event.target.blur();
  if (held || event.altKey || event.target.closest('input:not([type=checkbox]),textarea,select,dialog')) return;
  if (going && Date.now() - going < 1500) { going = 0; if (GO[key]) { event.preventDefault(); location.href = address(GO[key]); } return; }
  if (key === 'g') { going = Date.now(); return; }
  if (press(key)) event.preventDefault();
});

// Rows of tables: one is current, and some can be selected.
const rows = () => $$('tbody[data-nav] tr');
let chosen = null;
const row = () => rows().find((each) => each === chosen || (chosen?.id && each.id === chosen.id));
function move(step) {
  const all = rows();
  if (!all.length) return;
  const index = all.indexOf(row());
  chosen = all[Math.max(0, Math.min(all.length - 1, index + step))];
  mark();
  chosen.scrollIntoView({ block: 'nearest' });
  $('a', chosen)?.focus({ preventScroll: true });
}
function mark() { const one = row(); rows().forEach((each) => each.classList.toggle('current', each === one)); }
on('htmx:after:swap', () => { mark(); selected(); });

function selected() {
  const bulk = $('.bulk-bar'), names = chosenNames();
  $$('tbody[data-nav] tr').forEach((each) => each.classList.toggle('selected', Boolean($('input:checked', each))));
  const runs = $('#chosen-runs');
  if (runs) {
    runs.textContent = names.length ? `${names.length} selected` : runs.dataset.none;
    bulk.hidden = 'selectedOnly' in bulk.dataset && !names.length;
    return;
  }
  if (!bulk) return;
  bulk.hidden = !names.length;
  $('#chosen').textContent = names.length;
}
on('change', (event) => { if (event.target.closest('tbody[data-nav]')) selected(); });

// Many runs at once: what it would do is previewed, asked, and bound to what the preview found.
async function runs(button) {
  const bar = $('#run-bar'), ids = chosenNames(), about = ids.length ? { runs: ids } : JSON.parse(bar.dataset.filters);
  const body = { do: button.dataset.bulkRuns, ...about };
  const post = (path, sent) => { button.dataset.call = `POST ${address(path)}`; return call(button, sent).finally(() => delete button.dataset.call); };
  try {
    const preview = await post('/v1/runs/bulk/preview', body);
    if (!preview.total) { toast(preview.sentence); return; }
    button.dataset.word = `${body.do === 'retry' ? 'Retry' : 'Cancel'} ${preview.total}`;
    ask(preview.sentence, button, async () => {
      try {
        const result = await post('/v1/runs/bulk', { ...body, expect: preview.digest });
        toast([`${result.total} done.`, ...result.skipped.map((each) => `${each.run}: ${each.reason}`)].join(' '));
      } catch (error) { toast(error.message); }
      unselect();
      document.body.dispatchEvent(new CustomEvent('matins:refresh'));
    });
  } catch (error) { toast(error.message); }
}
on('click', (event) => { const button = event.target.closest('[data-bulk-runs]'); if (button) runs(button); });
if (new URL(location.href).searchParams.has('retry')) {
  const clean = new URL(location.href);
  clean.searchParams.delete('retry');
  history.replaceState(null, '', clean);
  $('[data-bulk-runs=retry]')?.click();
}
function unselect() { $$('tbody[data-nav] input:checked').forEach((each) => { each.checked = false; }); selected(); }
on('matins:unselect', unselect);
on('click', (event) => {
  const button = event.target.closest('[data-bulk]');
  if (!button) return;
  if (button.dataset.sure) ask(button.dataset.sure.replace('the selected', chosenNames().length === 1 ? 'the selected' : `${chosenNames().length}`), button, () => bulk(button));
  else bulk(button);
});
async function bulk(button) {
  button.dataset.call = `POST ${address('/v1/bulk')}`;
  let said;
  try {
    const result = await call(button, { do: button.dataset.bulk, select: selector(chosenNames()) });
    said = [`${result.total} done.`, ...result.skipped.map((each) => `${each.schedule}: ${each.reason}`)].join(' ');
  } catch (error) { said = error.message; }
  delete button.dataset.call;
  toast(said);
  unselect();
  document.body.dispatchEvent(new CustomEvent('matins:refresh'));
}
