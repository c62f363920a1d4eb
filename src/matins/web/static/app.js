// The page's scripts. Everything can be read without them.
import { $, $$, on, remember, swapped, toast } from './dom.js';
import './calls.js';
import './keys.js';
import './live.js';
import './output.js';
import './palette.js';
import './lanes.js';

// The server renders times in the viewer's zone, as soon as it knows it.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const known = document.cookie.includes('matins_zone=');
if (zone && zone !== document.body.dataset.zone && !(known && sessionStorage.zoned === zone)) {
  remember('matins_zone', zone);
  sessionStorage.zoned = zone;
  if (document.cookie.includes('matins_zone=')) location.reload();
}

// A link from elsewhere was asked for twice; the address should not show it.
const address = new URL(location.href);
if (address.searchParams.has('b')) {
  address.searchParams.delete('b');
  history.replaceState(null, '', address);
}

const themes = ['auto', 'light', 'dark'];
export function nextTheme() {
  const root = document.documentElement;
  const theme = themes[(themes.indexOf(root.dataset.theme || 'auto') + 1) % 3];
  if (theme === 'auto') delete root.dataset.theme; else root.dataset.theme = theme;
  remember('matins_theme', theme);
  $$('[data-theme-word]').forEach((each) => { each.textContent = theme; });
  $('[data-theme-next]').setAttribute('aria-label', `Theme: ${theme}. Change it.`);
}
on('click', (event) => { if (event.target.closest('[data-theme-next]')) nextTheme(); });
on('matins:theme', nextTheme);

on('click', (event) => {
  const button = event.target.closest('[data-copy]');
  if (button) navigator.clipboard?.writeText(button.dataset.copy).then(() => toast('Copied.'), () => toast('The browser does not allow copying here.'));
});

// What a picture shows leads to its records.
on('click', (event) => { const part = event.target.closest('[data-href]'); if (part && !part.closest('.lane-list')) location.href = part.dataset.href; });

// One tooltip for anything with data-tip, by pointer and focus.
let tip;
const hide = () => { tip?.remove(); tip = null; };
function show(event) {
  const target = event.target.closest?.('[data-tip]');
  hide();
  if (!target || !target.dataset.tip) return;
  tip = document.createElement('div');
  tip.className = 'tooltip';
  tip.textContent = target.dataset.tip;
  document.body.append(tip);
  const at = target.getBoundingClientRect(), size = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(at.x + at.width / 2 - size.width / 2, innerWidth - size.width - 8))}px`;
  tip.style.top = `${at.y - size.height - 10 < 8 ? at.bottom + 8 : at.y - size.height - 10}px`;
}
on('pointerover', show);
on('focusin', show);
on('scroll', hide, window);
on('htmx:after:swap', hide);

// A form that only chooses sends itself.
on('change', (event) => { if (event.target.matches('[data-submit]')) event.target.form.requestSubmit(); });

// The form of a schedule: examples, the same as a command, and no button for what cannot be read.
const form = $('#form');
if (form) {
  const when = form.elements.when;
  on('click', (event) => {
    const chip = event.target.closest('[data-fill]');
    if (!chip) return;
    when.value = chip.textContent.trim();
    when.dispatchEvent(new Event('input', { bubbles: true }));
    when.focus();
  });
  const quoted = (text) => `"${text.replace(/(["\\$`])/g, '\\$1')}"`;
  const same = () => {
    const command = $('#same code');
    if (!command) return;
    const given = new FormData(form);
    const parts = ['matins add', quoted(given.get('when') || '')];
    for (const name of ['agent', 'name', 'timezone']) if (given.get(name)) parts.push(`--${name} ${quoted(given.get(name))}`);
    for (const name of ['quiet_hours', 'overlap', 'catch_up', 'approval', 'max_cost', 'timeout', 'retries']) if (given.get(name)) parts.push(`--set ${name}=${quoted(given.get(name))}`);
    if (given.get('prompt')) parts.push(quoted(given.get('prompt')));
    command.textContent = $('#same [data-copy]').dataset.copy = parts.join(' ');
  };
  on('input', same, form);
  swapped(() => {
    const wrong = Boolean($('#prev [data-invalid]'));
    when.setAttribute('aria-invalid', wrong);
    $('#save').disabled = wrong;
    same();
  });
}
