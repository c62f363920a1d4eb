// The output of a run follows its end, while the tab shows it.
import { $, address, fragment } from './dom.js';

const EVERY_MS = 500, MOST_ENTRIES = 2000;

const box = $('#out');
function append(part) {
  const first = part.firstElementChild;
  if (first?.dataset.continues !== undefined && box.lastElementChild) { box.lastElementChild.append(...first.childNodes); first.remove(); }
  box.append(...part.childNodes);
  while (box.childElementCount > MOST_ENTRIES) box.firstElementChild.remove();
}
async function follow() {
  if (!document.hidden) {
    try {
      const part = (await fragment(address(`/ui/output/${box.dataset.run}?offset=${box.dataset.next}`)))?.firstElementChild;
      if (part) {
        const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
        box.dataset.next = part.dataset.next;
        append(part);
        if (atEnd && $('#follow')?.checked !== false) box.scrollTop = box.scrollHeight;
        if (part.dataset.over) { document.body.dispatchEvent(new CustomEvent('matins:refresh')); return; }
      }
    } catch { /* the stream says that the page is not live */ }
  }
  setTimeout(follow, EVERY_MS);
}
if (box) box.scrollTop = box.scrollHeight;
if (box?.dataset.run) follow();
