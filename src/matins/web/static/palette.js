// Ctrl K: one field for everything.
import { $, $$, address, fragment, on } from './dom.js';

const dialog = $('#palette'), input = $('input', dialog), box = $('#pl');
let asked = 0, timer;

async function fill() {
  const mine = ++asked;
  const found = await fragment(address(`/ui/palette?q=${encodeURIComponent(input.value)}`));
  if (mine !== asked || !found) return;
  box.replaceChildren(...found.childNodes);
  const options = $$('[role=option]', box);
  options.forEach((option, index) => { option.id = `po${index}`; });
  choose(options[0]);
}
function choose(option) {
  $$('[role=option]', box).forEach((each) => each.setAttribute('aria-selected', each === option));
  if (!option) { input.removeAttribute('aria-activedescendant'); return; }
  input.setAttribute('aria-activedescendant', option.id);
  option.scrollIntoView({ block: 'nearest' });
}
export function toggle() {
  if (dialog.open) { dialog.close(); return; }
  input.value = '';
  dialog.showModal();
  input.focus();
  fill();
}
on('input', () => { clearTimeout(timer); timer = setTimeout(fill, 80); }, input);
on('click', (event) => { if (event.target === dialog) dialog.close(); }, dialog);
on('keydown', (event) => {
  const options = $$('[role=option]', box), index = options.findIndex((each) => each.getAttribute('aria-selected') === 'true');
  if (event.key === 'Enter' && options[index]) { event.preventDefault(); dialog.close(); location.href = options[index].href; }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && options.length) { event.preventDefault(); choose(options[(index + step + options.length) % options.length]); }
}, dialog);
$$('.search-button').forEach((button) => on('click', toggle, button));
