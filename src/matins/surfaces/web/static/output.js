// The output of a run follows its end, while the tab shows it.
import { $ } from './dom.js';

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const EVERY_MS = 500, MOST_CHARS = 400_000;

// Characters that would hide or reorder others are written out, as the server does.
function append(box, text) {
  let start = 0;
  for (const match of text.matchAll(HIDDEN)) {
    box.append(text.slice(start, match.index));
    const mark = document.createElement('span');
    mark.className = 'ctl';
    mark.textContent = match[0] === '\u001b' ? 'ESC' : `U+${match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
    box.append(mark);
    start = match.index + 1;
  }
  box.append(text.slice(start));
}

const box = $('#out');
if (box?.dataset.live) {
  box.scrollTop = box.scrollHeight;
  let size = box.textContent.length;
  const follow = async () => {
    if (!document.hidden) {
      try {
        const response = await fetch(`/v1/runs/${box.dataset.run}/output?offset=${box.dataset.next}`);
        if (response.ok) {
          const output = await response.json();
          const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
          append(box, output.text);
          size += output.text.length;
          while (size > MOST_CHARS && box.firstChild) { size -= box.firstChild.textContent.length; box.firstChild.remove(); }
          box.dataset.next = output.next;
          if (output.text && atEnd && $('#follow')?.checked !== false) box.scrollTop = box.scrollHeight;
          if (output.over) { document.body.dispatchEvent(new CustomEvent('matins:refresh')); return; }
        }
      } catch { /* the stream says that the page is not live */ }
    }
    setTimeout(follow, EVERY_MS);
  };
  follow();
}
